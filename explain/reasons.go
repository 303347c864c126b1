package explain

import (
	_ "embed"
	"fmt"
	"slices"
	"sync"

	"sigs.k8s.io/yaml"
)

//go:embed reasons.yaml
var reasonsFile []byte

// Row is what a reason of a condition means. See reasons.yaml.
type Row struct {
	Reason   string   `json:"reason"`
	Types    []string `json:"types,omitempty"` // condition types; none: all without a row of their own
	Concern  Concern  `json:"concern"`
	Person   bool     `json:"person,omitempty"` // a person has to act
	Meaning  string   `json:"meaning"`
	Remedy   string   `json:"remedy,omitempty"`
	Commands []string `json:"commands,omitempty"`
	Next     string   `json:"next,omitempty"`
	Clock    Clock    `json:"clock,omitempty"`
	Origin   string   `json:"origin"`
}

// Clock is the deadline that ends a wait.
type Clock string

// The deadlines; the empty Clock is none.
const (
	CreationClock Clock = "creation"
	HealthClock   Clock = "health"
	DrainClock    Clock = "drain"
)

// table is read once. A test proves that the embedded file is valid.
var table = sync.OnceValues(func() ([]Row, error) {
	var rows []Row
	if err := yaml.UnmarshalStrict(reasonsFile, &rows); err != nil {
		return nil, fmt.Errorf("read reasons.yaml: %w", err)
	}
	for i := range rows {
		if !rows[i].Concern.valid() {
			return nil, fmt.Errorf("read reasons.yaml: reason %s has concern %q", rows[i].Reason, rows[i].Concern)
		}
	}
	return rows, nil
})

// Rows returns the table, in the order of the file.
func Rows() []Row {
	rows, err := table()
	if err != nil {
		panic(err)
	}
	return slices.Clone(rows)
}

// rowOf returns the row of a reason that a condition of that type has. A reason of
// another project has no row: its message has to do.
func rowOf(condition, reason string) Row {
	rows, err := table()
	if err != nil {
		panic(err)
	}
	found := Row{
		Reason: reason, Concern: Unknown, Meaning: "this reason is not one of this project's",
		Remedy: "read the message", Next: "its controller decides",
	}
	for i := range rows {
		switch {
		case rows[i].Reason != reason:
		case slices.Contains(rows[i].Types, condition):
			return rows[i]
		case len(rows[i].Types) == 0:
			found = rows[i]
		}
	}
	return found
}

//go:embed events.yaml
var eventsFile []byte

// EventRow is what the reason of an Event means that is not a condition's. See events.yaml.
type EventRow struct {
	Event   string `json:"event"`
	Warning bool   `json:"warning,omitempty"` // something is wrong
	Meaning string `json:"meaning"`
	Remedy  string `json:"remedy,omitempty"`
	About   string `json:"about"`
}

// eventTable is read once. A test proves that the embedded file is valid.
var eventTable = sync.OnceValues(func() ([]EventRow, error) {
	var rows []EventRow
	if err := yaml.UnmarshalStrict(eventsFile, &rows); err != nil {
		return nil, fmt.Errorf("read events.yaml: %w", err)
	}
	return rows, nil
})

// EventRows returns the table, in the order of the file.
func EventRows() []EventRow {
	rows, err := eventTable()
	if err != nil {
		panic(err)
	}
	return slices.Clone(rows)
}
