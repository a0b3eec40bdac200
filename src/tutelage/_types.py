"""The notation, once: letters inside the library, words outside it.

| letter    | meaning                                                        | shape          |
|-----------|----------------------------------------------------------------|----------------|
| N         | input dimension (infinite in the theory)                       |                |
| K, M      | hidden units of the student, of the teacher                    |                |
| L         | levels: distinct eigenvalues of the input covariance           |                |
| lam, p    | eigenvalue of a level, fraction of the N dimensions it holds   | (L,)           |
| W, W*     | first-layer weights; fields lambda = W x / sqrt(N), rho        | (K, N), (M, N) |
| v, v*     | readouts: output = sum_k v_k g(lambda_k + b_k)                 | (K,), (M,)     |
| b, b*     | hidden biases                                                  | (K,), (M,)     |
| q, r, t   | overlaps per level, W P_l W^T / (N p_l) and likewise           | (L, K, K) ...  |
| Q, R, T   | field covariances, Q = sum_l p_l lam_l q_l                     | (K, K) ...     |
| C         | covariance of all n = K + M fields, [[Q, R], [R^T, T]]         | (n, n)         |
| w         | weights of the error, Delta = sum_a w_a g_a, w = (-v, v*)      | (n,)           |
| A, B, G   | the three matrices of the dynamics (moments/matrices.py)         | (K,K)(K,M)(K,K)|
| eta       | learning rate; kappa: weight decay; sigma: label noise         |                |
| alpha     | time = steps / N                                               |                |
| e_g       | generalization error E[(noiseless y - yhat)^2] / 2             |                |

The test loss is e_g + sigma^2 / 2; the two are never mixed.
"""

from typing import TypeAlias

import jax
import numpy as np

Array: TypeAlias = jax.Array
ArrayLike: TypeAlias = jax.Array | np.ndarray | float | int
