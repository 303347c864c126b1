// Package message shortens texts for Events and conditions.
package message

import (
	"fmt"
	"strings"
)

// Limit is how many bytes of a text an Event or a condition carries. The API server
// refuses Events of more than 1024, what Truncate adds included.
const Limit = 1000

// Truncate returns the text; one of more than limit bytes is cut there, and its
// length added. It never cuts a character in two.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:limit], ""), len(text))
}
