"""The end of learning at n = ratio N samples: regularized minimum, Bayes' optimum.

setting: what a problem says about inputs, teacher and labels. quadrature: nodes of
Gaussian averages. label_nodes: fields and labels of a sample as nodes. proximal: the
loss of one sample after the weights have adapted to it. minimum: state evolution of the
minimum of a convex loss. separability: where no finite minimum exists. direct: the same
minimum at finite N. information, bayes: Bayes-optimal learning from one teacher unit.
two_units: from two. exponents: which part of a target learning finds first.

Analyses in analysis/equilibrium.py are the way in; no curve is computed here.
"""
