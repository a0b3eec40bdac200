"""The scatter of finite networks around the theory: Gaussian fluctuations of order N^-1/2."""
