package explain

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

// preface is what docs/troubleshooting.md begins with.
const preface = `# Troubleshooting

<!-- Made from ops/explain/reasons.yaml and events.yaml by go test ./ops/explain -update; change it there. -->

Every condition has a reason. This page has what each of them means, what to do, what happens by itself,
and which objects report it. ` + "`kubectl mcm why OBJECT`" + ` looks all of it up for one object, fills the
commands in, and begins with the first thing that is missing: see [kubectl mcm](kubectl-mcm.md). For help from
others, ` + "`kubectl mcm support-bundle`" + ` collects what they need. [Events](#events) stand at the end.

A reason that is in the table twice means different things on different conditions. **Person** marks what
does not end before a person has acted. Everything that passes by itself does so at once when its cause is
gone.
`

// titles are the headings of the page, by concern.
var titles = []struct {
	concern     Concern
	title, text string
}{
	{Spec, "The object", "A field, label or annotation of the object itself."},
	{ClassField, "The MachineClass", "A field of the class, or the class as a whole."},
	{SecretKey, "Secrets", "A Secret, or an entry of it."},
	{Credentials, "Credentials", "The cloud knows the account, and refuses it."},
	{
		Capacity, "Capacity and quota",
		"The cloud has no more, or the account may not have more. kubectl mcm tells them apart by the cloud's words.",
	},
	{Rate, "Rate", "Too many calls, or too many replacements at a time."},
	{Cloud, "The cloud", "Its API, or the VM in it."},
	{Addresses, "Addresses", "IP pools and claims."},
	{APIServer, "API servers", "One does not answer, or not the manager."},
	{Permissions, "Permissions", "An API server answers, and refuses."},
	{Boot, "Boot", "What runs on the VM before it is used."},
	{Join, "Join", "The VM runs, and its node does not register."},
	{Health, "Health", "The node has joined and is unhealthy."},
	{Drain, "Drain", "Pods and PodDisruptionBudgets."},
	{Volume, "Volumes", "What is attached to the node."},
	{Hold, "Holds", "A migration, a hook or a person keeps the object as it is."},
	{Freeze, "Freezes", "Too many machines exist."},
	{Outage, "Outages", "Nodes were lost together. See [safety](safety.md#outages)."},
	{Paused, "Pauses", "A person has asked for nothing to happen."},
	{Order, "Order", "Another object comes first."},
	{Manager, "The manager", "No manager is at work."},
	{Progress, "Progress", "The controllers are at work, and nothing is wrong."},
	{None, "All is well", "Reasons of conditions that are as they should be."},
}

// Troubleshooting returns docs/troubleshooting.md.
func Troubleshooting() string {
	var out strings.Builder
	out.WriteString(preface)
	rows := reasonRows()
	slices.SortStableFunc(rows, func(a, b reasonRow) int { return cmp.Compare(a.Reason, b.Reason) })
	for _, t := range titles {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n", t.title, t.text)
		if t.concern == None {
			out.WriteString("| reason | means | reported by |\n|---|---|---|\n")
		} else {
			out.WriteString("| reason | means | remedy | next | reported by |\n|---|---|---|---|---|\n")
		}
		for i := range rows {
			if rows[i].Concern == t.concern {
				out.WriteString(rows[i].markdown())
			}
		}
	}
	return out.String() + eventTables()
}

// markdown is the line of a row.
func (r reasonRow) markdown() string {
	reason := "`" + r.Reason + "`"
	if len(r.Types) > 0 {
		reason += " of `" + strings.Join(r.Types, "`, `") + "`"
	}
	if r.Person {
		reason += " **Person**"
	}
	if r.Concern == None {
		return fmt.Sprintf("| %s | %s | %s |\n", reason, escape(r.Meaning), escape(r.Origin))
	}
	remedy := []string{escape(r.Remedy)}
	for _, c := range r.Commands {
		remedy = append(remedy, "`"+escape(placeholders.Replace(c))+"`")
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", reason, escape(r.Meaning), strings.Join(remedy, "<br>"),
		escape(r.Next), escape(r.Origin))
}

// placeholders are words to replace, as in the other pages.
var placeholders = strings.NewReplacer("{namespace}", "NAMESPACE", "{object}", "RESOURCE/NAME", "{class}", "CLASS",
	"{node}", "NODE", "{pool}", "POOL", "{cluster}", "CLUSTER", "{machine}", "MACHINE",
	"{secret}", "SECRET -n NAMESPACE", "{userdata}", "SECRET -n NAMESPACE")

func escape(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

const eventsPreface = `
## Events

A fault that a condition shows is an Event with the same reason, once. These Events have reasons of their own.
Where something is wrong:

| Event | means | remedy | on |
|---|---|---|---|
`

const normalEvents = `
In the normal course of things:

| Event | means | on |
|---|---|---|
`

// eventTables are the last part of docs/troubleshooting.md.
func eventTables() string {
	var wrong, normal strings.Builder
	for _, r := range eventRows() {
		if r.Warning {
			fmt.Fprintf(&wrong, "| `%s` | %s | %s | %s |\n", r.Event, escape(r.Meaning), escape(r.Remedy), escape(r.About))
		} else {
			fmt.Fprintf(&normal, "| `%s` | %s | %s |\n", r.Event, escape(r.Meaning), escape(r.About))
		}
	}
	return eventsPreface + wrong.String() + normalEvents + normal.String()
}

// reasonRows returns the table, in the order of the file.
func reasonRows() []reasonRow {
	rows, err := table()
	if err != nil {
		panic(err)
	}
	return slices.Clone(rows)
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
