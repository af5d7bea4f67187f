"""Files of certificates, keys and passwords, whichever server they are for."""
