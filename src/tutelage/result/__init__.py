"""The results of solves and simulations.

trajectory: `Trajectory`. observables: the curves of a theory besides the error. storage:
NetCDF files. tables: pandas and CSV. citations: the papers behind a result. attached:
reports, figures and pages, which the layers to the right provide.
"""
