// Package lenient decodes provider specs as MCM's drivers do, which take what
// encoding/json takes: fields that are not known are ignored, the case of keys
// does not matter, null is nothing. It says what it ignores, and decodes field by
// field, so that one of a wrong type does not hide the others.
package lenient
