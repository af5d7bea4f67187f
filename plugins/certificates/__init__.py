"""Files of certificates and keys, whichever server they are for."""
