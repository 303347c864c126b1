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

// reasonRow is what a reason of a condition means. See reasons.yaml.
type reasonRow struct {
	Reason   string   `json:"reason"`
	Types    []string `json:"types,omitempty"` // condition types; none: all without a row of their own
	Concern  Concern  `json:"concern"`
	Person   bool     `json:"person,omitempty"` // a person has to act
	Meaning  string   `json:"meaning"`
	Remedy   string   `json:"remedy,omitempty"`
	Commands []string `json:"commands,omitempty"`
	Next     string   `json:"next,omitempty"`
	Clock    deadline `json:"clock,omitempty"`
	Origin   string   `json:"origin"`
}

// deadline is what ends a wait.
type deadline string

// The deadlines; the empty one is none.
const (
	creationDeadline deadline = "creation"
	healthDeadline   deadline = "health"
	drainDeadline    deadline = "drain"
)

// table is read once. A test proves that the embedded file is valid.
var table = sync.OnceValues(func() ([]reasonRow, error) {
	var rows []reasonRow
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

// reasonRows returns the table, in the order of the file.
func reasonRows() []reasonRow {
	rows, err := table()
	if err != nil {
		panic(err)
	}
	return slices.Clone(rows)
}

// rowOf returns the row of a reason that a condition of that type has. A reason of
// another project has no row: its message has to do.
func rowOf(condition, reason string) reasonRow {
	rows, err := table()
	if err != nil {
		panic(err)
	}
	found := reasonRow{
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

// eventRow is what the reason of an Event means that is not a condition's. See events.yaml.
type eventRow struct {
	Event   string `json:"event"`
	Warning bool   `json:"warning,omitempty"` // something is wrong
	Meaning string `json:"meaning"`
	Remedy  string `json:"remedy,omitempty"`
	About   string `json:"about"`
}

// eventTable is read once. A test proves that the embedded file is valid.
var eventTable = sync.OnceValues(func() ([]eventRow, error) {
	var rows []eventRow
	if err := yaml.UnmarshalStrict(eventsFile, &rows); err != nil {
		return nil, fmt.Errorf("read events.yaml: %w", err)
	}
	return rows, nil
})

// eventRows returns the table, in the order of the file.
func eventRows() []eventRow {
	rows, err := eventTable()
	if err != nil {
		panic(err)
	}
	return slices.Clone(rows)
}

//go:embed alerts.yaml
var alertsFile []byte

// alertRow is what to do about an alert. See alerts.yaml.
type alertRow struct {
	Alert    string   `json:"alert"`
	Severity string   `json:"severity"`
	Symptom  string   `json:"symptom"`
	Check    string   `json:"check"`
	Note     string   `json:"note,omitempty"`
	Remedies []remedy `json:"remedies,omitempty"`
	More     string   `json:"more,omitempty"`
	Worry    string   `json:"worry"`
}

// remedy is what to do about what the commands of an alert show.
type remedy struct {
	See string `json:"see"`
	Do  string `json:"do"`
}

// alertTable is read once. A test proves that the embedded file is valid.
var alertTable = sync.OnceValues(func() ([]alertRow, error) {
	var rows []alertRow
	if err := yaml.UnmarshalStrict(alertsFile, &rows); err != nil {
		return nil, fmt.Errorf("read alerts.yaml: %w", err)
	}
	return rows, nil
})

// alertRows returns the table, in the order of the file.
func alertRows() []alertRow {
	rows, err := alertTable()
	if err != nil {
		panic(err)
	}
	return slices.Clone(rows)
}
