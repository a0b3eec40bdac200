"""The theory of a finite data set: training that uses its samples again and again.

In the limit N -> infinity with n = ratio N samples, the weights and the samples are
independent but for memory kernels, which follow from averages over sample paths. They
are computed forward in time, in one pass.

setting    what the theory needs of a problem, as numbers
grid       cells of time, and the rates in each
paths      random numbers of the sample paths: one scrambled Sobol point each
path_kernel    machine code: all paths at one time
kernels    response Theta, noise C, memory Gamma of the weights, and the overlaps
averages   averages over the paths at one time, for SGD and for gradient descent
solver     one pass over a grid, for one scrambling
scramblings    several passes in threads, at the recorded times
estimates  curves with their errors
accuracy   grids, paths and scramblings that reach the accuracy
theory     from a problem to a `Trajectory`
"""
