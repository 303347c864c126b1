// Package redact removes from objects and texts what looks like a secret, by its name or its form.
// What has neither cannot be found: it is only known to be one where another place names it.
package redact
