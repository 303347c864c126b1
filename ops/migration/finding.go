package migration

import (
	"fmt"
)

// Level is what a Finding means for a move.
type Level string

// The levels, from good to bad.
const (
	Kept     Level = "kept"     // means the same on the other API
	Replaced Level = "replaced" // something else does the same there
	Advised  Level = "advised"  // not in the way of a takeover, and better done
	Lost     Level = "lost"     // has no counterpart; moved only if the user accepts that field by name
	Blocked  Level = "blocked"  // not moved until the remedy is done
)

// Finding is what becomes of one field, or why something cannot be moved yet.
type Finding struct {
	Level  Level  `json:"level"`
	Object string `json:"object"`           // "MachineDeployment default/pool"
	Field  string `json:"field"`            // "spec.strategy.type"; empty: the object as a whole
	Text   string `json:"text"`             // what becomes of it, or why not
	Remedy string `json:"remedy,omitempty"` // what to do first; empty if there is nothing to do
}

// Finding is one of that level.
func (l Level) Finding(object, field, text, remedy string) Finding {
	return Finding{Level: l, Object: object, Field: field, Text: text, Remedy: remedy}
}

// String is one line for a person.
func (f Finding) String() string {
	s := f.Object
	if f.Field != "" {
		s += " " + f.Field
	}
	s = fmt.Sprintf("%s: %s: %s", f.Level, s, f.Text)
	if f.Remedy != "" {
		s += "; " + f.Remedy
	}
	return s
}
