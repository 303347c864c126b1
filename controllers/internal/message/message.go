// Package message shortens texts for Events and conditions.
package message

import "strings"

// EventLimit is how many bytes of a text an Event or a condition of a MachineSet
// or MachineDeployment carries. The API server refuses Events of more than 1024.
const EventLimit = 1000

// Truncate returns the text, cut after limit bytes and marked with "…" if it is
// longer. It never cuts a character in two.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
