"""Questions and answers: one verb per question, each returning a small frozen result with numbers, words and a figure.

Every verb is a public name of the package (`tutelage.fixed_point`, ...); docs/how-to has a page for each question.
"""
