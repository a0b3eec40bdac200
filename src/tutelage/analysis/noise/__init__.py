"""The scatter of finite networks around the theory: Gaussian fluctuations of order N^-1/2.

noisy_curve (Jacobian and diffusion along a solve) -> small_noise (the covariance that they make) -> fluctuation (the verb)
"""
