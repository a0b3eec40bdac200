"""From equations to numbers.

program (what goes in and what comes out) -> dormand_prince (the explicit integrator), or
diffrax_solvers (reverse-mode gradients, custom equations, stiff spectra), or, for erf committees outside JAX
transformations, dynamics/committee_kernel (the same integrator and equations in numba)
"""
