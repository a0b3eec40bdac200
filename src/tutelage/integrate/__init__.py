"""From equations to numbers: program.py calls dormand_prince.py, diffrax_solvers.py or dynamics/committee_kernel.py."""
