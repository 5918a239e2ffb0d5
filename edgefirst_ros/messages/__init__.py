"""CDR bytes to typed measurements: one module a sensor."""
