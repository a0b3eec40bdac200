"""The averages of a learning rule over one sample: all that the theory needs.

    mean        A, B with E[delta_k x] = Omega (sum_j A_kj w_j + sum_m B_km w*_m),
                the mean change of readout and bias, the mean loss
    covariance  G = E[delta delta^T]

`moments_for` (matrices.py) chooses: `ClosedMoments` serves squared loss by five
Gaussian averages of the activations, in closed form (averages.py) or by quadrature
(quadrature.py). `NodeMoments` (node_moments.py) averages any rule over nodes.

    node_sums      sums over given nodes, and their derivatives
    noise_nodes    nodes of what labels and rules draw at random
    class_error    the error over nodes; wrong classes in closed form
    batch_moments  averages over whole batches, and mean squares, for optimizers
    integrals      I2, I3, I4 and J2 of the textbooks, made of the same averages
"""

from tutelage.stream.moments.averages import Moments
from tutelage.stream.moments.integrals import I2, I3, I4, J2
from tutelage.stream.moments.matrices import moments_for
from tutelage.stream.moments.quadrature import Quadrature, Sampled

__all__ = ["I2", "I3", "I4", "J2", "Moments", "Quadrature", "Sampled", "moments_for"]
