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

<!-- Made from reasons.yaml, events.yaml and alerts.yaml in ops/explain by go test ./ops/explain -update. -->

Every condition has a reason. This page has what each reason means, what to do, what happens without any action,
and which objects report it. ` + "`kubectl mcm why OBJECT`" + ` does that for one object, fills in the commands, and
begins with the first thing that is missing: see [kubectl mcm](kubectl-mcm.md). [Alerts](#alerts) and
[Events](#events) stand at the end; [symptoms](operations.md#symptoms) are for when there is no reason to look up.
For help from others, ` + "`kubectl mcm support-bundle`" + ` collects what they need.

Each part begins with its concerns: where the cause lies, as ` + "`kubectl mcm why`" + ` names it. A reason that is in a
table twice means different things on different conditions. **Person** marks what does not end before a person
has acted; everything else ends at once when its cause is gone. On a native Machine the conditions are in
` + "`status.progress.conditions`" + `.
`

// part is a section of the page: the reasons of some concerns.
type part struct {
	title    string
	concerns []concernText
}

// concernText is where the cause of a reason lies, as kubectl mcm why names it, and what that means.
type concernText struct {
	concern Concern
	text    string
}

// parts are the sections of the page.
var parts = []part{
	{"The object, its class and Secrets", []concernText{
		{Spec, "a field, label or annotation of the object itself"},
		{ClassField, "a field of the MachineClass, or the class as a whole"},
		{SecretKey, "a Secret, or an entry of it"},
	}},
	{"The cloud", []concernText{
		{Credentials, "the cloud knows the account, and refuses it"},
		{Capacity, "the cloud has no more"},
		{Quota, "the same reasons, where the cloud's words say that the account may not have more"},
		{Rate, "too many calls, or too many replacements at a time"},
		{Cloud, "the cloud's API, or the VM in it"},
		{Addresses, "IP pools and claims"},
	}},
	{"API servers and the manager", []concernText{
		{APIServer, "an API server does not answer, or not the manager"},
		{Permissions, "an API server answers, and refuses"},
		{Manager, "no manager is at work"},
	}},
	{"Boot, join and health", []concernText{
		{Boot, "what runs on the VM before it is used"},
		{Join, "the VM runs, and its node does not register"},
		{Health, "the node has joined and is unhealthy"},
	}},
	{"Drain and volumes", []concernText{
		{Drain, "pods and PodDisruptionBudgets"},
		{Volume, "volumes that are attached to the node"},
	}},
	{"Kept or stopped on purpose", []concernText{
		{Hold, "a migration, a hook or a person keeps the object as it is"},
		{Freeze, "too many machines exist"},
		{Outage, "nodes were lost together: see [outages](operations.md#outages)"},
		{Paused, "a person has asked for nothing to happen"},
	}},
	{"In progress", []concernText{
		{Order, "another object comes first"},
		{Progress, "the controllers are at work, and nothing is wrong"},
	}},
	{"All is well", []concernText{{None, "the condition is as it should be"}}},
}

// Troubleshooting returns docs/troubleshooting.md.
func Troubleshooting() string {
	var out strings.Builder
	out.WriteString(preface)
	rows := reasonRows()
	slices.SortStableFunc(rows, func(a, b reasonRow) int { return cmp.Compare(a.Reason, b.Reason) })
	for _, p := range parts {
		out.WriteString(p.markdown(rows))
	}
	return out.String() + eventTables() + alertSections()
}

// markdown is the section with the rows of its concerns.
func (p part) markdown(rows []reasonRow) string {
	var concerns, lines []string
	for _, c := range p.concerns {
		concerns = append(concerns, fmt.Sprintf("`%s`: %s", c.concern, c.text))
		for i := range rows {
			if rows[i].Concern == c.concern {
				lines = append(lines, rows[i].markdown())
			}
		}
	}
	header := "| reason | means | remedy | next | reported by |\n|---|---|---|---|---|\n"
	if p.concerns[0].concern == None {
		header = "| reason | means | reported by |\n|---|---|---|\n"
	}
	return fmt.Sprintf("\n## %s\n\n%s.\n\n%s%s", p.title, strings.Join(concerns, "; "), header, strings.Join(lines, ""))
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

const alertsPreface = `
## Alerts

What to do when one of the [alerts](monitoring.md#alerts) fires. Commands use the short names of the native API: mc,
mcs, mcd and mcc for Machine, MachineSet, MachineDeployment and MachineClass.
`

// alertSections are the part of docs/troubleshooting.md to which the rules' runbook_url leads.
func alertSections() string {
	var out strings.Builder
	out.WriteString(alertsPreface)
	for _, r := range alertRows() {
		fmt.Fprintf(&out, "\n### %s\n\nSeverity: %s. %s", r.Alert, r.Severity, r.Symptom)
		if r.Note != "" {
			fmt.Fprintf(&out, " %s", r.Note)
		}
		fmt.Fprintf(&out, "\n\n```sh\n%s```\n", r.Check)
		if len(r.Remedies) > 0 {
			out.WriteString("\n| you see | do |\n|---|---|\n")
		}
		for _, remedy := range r.Remedies {
			fmt.Fprintf(&out, "| %s | %s |\n", escape(remedy.See), escape(remedy.Do))
		}
		more := ""
		if r.More != "" {
			more = r.More + " "
		}
		fmt.Fprintf(&out, "\n%s**When to worry:** %s\n", more, r.Worry)
	}
	return out.String()
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
