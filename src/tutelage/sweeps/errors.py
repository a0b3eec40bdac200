"""What is said when a sweep cannot go on."""

from tutelage._errors import InputError


class StoreError(InputError):
    """The sweep cannot go on, for want of a place to write or of workers; its folder is whole and can be resumed."""
