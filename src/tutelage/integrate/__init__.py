"""From equations to numbers.

program (the compiled program, what goes in and what comes out) -> dormand_prince (the explicit integrator), or
diffrax_path (reverse-mode gradients, custom equations) with stiff (wide spectra);
compiled (erf committees outside JAX transformations) -> committee_kernel (the same integrator and equations in numba)
"""
