package explain

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"
)

// Reasons that no controller writes: they follow from several objects, or from the absence
// of a condition.
const (
	reasonNotObserved  = "NotObserved"
	reasonCreateFailed = "CreateFailed"
	reasonTerminating  = "Terminating"
	reasonNotRolledOut = "TemplateNotRolledOut"
	reasonTokenExpired = "BootstrapTokenExpired"
	reasonOtherName    = "NodeOfAnotherName"
	reasonNotApproved  = "NodeNotApproved"
	reasonTargetError  = "TargetNotReadable"
	reasonMigration    = "PausedForMigration"
)

// Finding is the first thing that an object lacks.
type Finding struct {
	Object    Ref          `json:"object"`
	Condition string       `json:"condition,omitempty"`
	Reason    string       `json:"reason"`
	Message   string       `json:"message,omitempty"`
	Since     *metav1.Time `json:"since,omitempty"`
	Concern   Concern      `json:"concern"`
	// NeedsPerson is true if it does not end before a person has acted.
	NeedsPerson bool     `json:"needsPerson"`
	Meaning     string   `json:"meaning"`
	Remedy      string   `json:"remedy"`
	Commands    []string `json:"commands,omitempty"`
	Next        string   `json:"next"`
	// NextTime is when that happens at the latest, if it is known.
	NextTime *metav1.Time `json:"nextTime,omitempty"`

	beside bool // no other step waits for it
}

// judge finds out what a condition of o means.
func (f *Facts) judge(o *Object, c Condition) *Finding {
	row := rowOf(c.Type, c.Reason)
	found := &Finding{
		Object: o.Ref, Condition: c.Type, Reason: c.Reason, Message: c.Message, Since: at(c.Since), Concern: row.Concern,
		NeedsPerson: row.Person, Meaning: row.Meaning, Remedy: row.Remedy, Next: row.Next,
	}
	if row.Concern == Capacity && quota.MatchString(c.Message) {
		found.Concern, found.Meaning = Quota, "the account's quota is used up"
		found.Remedy, found.NeedsPerson = "raise the quota, delete what uses it, or use another type", true
	}
	fill := f.replacer(o)
	for _, command := range row.Commands {
		found.Commands = append(found.Commands, fill.Replace(command))
	}
	if limit, exact := f.deadline(o, row.Clock); !limit.IsZero() {
		found.NextTime = at(limit)
		if !exact {
			found.Next += ", unless the manager's flag for it is not the default"
		}
	}
	return found
}

// quota matches what clouds say when the account may not have more, as opposed to the cloud.
var quota = regexp.MustCompile(`(?i)quota|limit ?exceeded|exceeds? .*limit|may have no more`)

// replacer fills the placeholders of commands in. What is not known stays a word to replace.
func (f *Facts) replacer(o *Object) *strings.Replacer {
	known := func(value, placeholder string) string {
		if value == "" {
			return placeholder
		}
		return value
	}
	machine := ""
	for part := o; part != nil && machine == ""; part = f.owner(part) {
		if part.Kind == KindMachine {
			machine = part.Name
		}
	}
	return strings.NewReplacer(
		"{namespace}", known(o.Namespace, "NAMESPACE"), "{object}", resource(o.Ref), "{class}", known(o.Class, "CLASS"),
		"{node}", known(o.Node, "NODE"), "{pool}", known(o.Pool, "POOL"), "{cluster}", known(o.Cluster, "CLUSTER"),
		"{machine}", known(machine, "MACHINE"), "{secret}", f.secret(o, true), "{userdata}", f.secret(o, false),
	)
}

// secret is the Secret of an object's class for a command line: that with the credentials, or
// that with the boot data.
func (f *Facts) secret(o *Object, credentials bool) string {
	name, namespace := "SECRET", o.Namespace
	if class := f.named(KindClass, o.Namespace, o.Class); class != nil {
		ref := class.Boot
		if credentials && class.Credentials.Name != "" {
			ref = class.Credentials
		}
		name, namespace = cmp.Or(ref.Name, name), cmp.Or(ref.Namespace, namespace)
	}
	return name + " -n " + namespace
}

// resource is an object for a command line. The plural form works for every kind here.
func resource(r Ref) string {
	group, _, _ := strings.Cut(r.APIVersion, "/")
	return strings.ToLower(r.Kind) + "s." + group + "/" + r.Name
}

// Defaults of the manager's flags, for machines without timeouts of their own.
const (
	defaultCreation = 20 * time.Minute
	defaultHealth   = 10 * time.Minute
	defaultDrain    = 2 * time.Hour
)

// deadline is when a clock ends, zero if it does not run. exact is false if it follows from
// the default of a flag, which the manager may have another value of.
func (f *Facts) deadline(o *Object, clock deadline) (end time.Time, exact bool) {
	if o.API != Native || o.Kind != KindMachine {
		return time.Time{}, true // Cluster API's health checks have clocks of their own
	}
	begin, own, fallback := o.Created, o.Creation, defaultCreation
	switch {
	case clock == healthDeadline && o.Phase == "Unknown":
		begin, own, fallback = o.PhaseSince, o.Health, defaultHealth
	case clock == drainDeadline && o.Deleting != nil:
		begin, own, fallback = *o.Deleting, o.Drain, defaultDrain
	case clock != creationDeadline:
		return time.Time{}, true
	}
	if own != nil {
		return begin.Add(*own), true
	}
	return begin.Add(fallback), false
}

// When is the time of a deadline for people, relative to now.
func (f *Finding) When(now time.Time) string {
	if f.NextTime == nil {
		return ""
	}
	left := f.NextTime.Sub(now)
	text := f.NextTime.UTC().Format(time.RFC3339)
	if left <= 0 {
		return fmt.Sprintf("%s, %s ago", text, duration.HumanDuration(-left))
	}
	return fmt.Sprintf("%s, in %s", text, duration.HumanDuration(left))
}

// Concern is where the cause lies, so that it is clear who has to look.
type Concern string

// The concerns.
const (
	None        Concern = "None"        // nothing is missing
	Progress    Concern = "Progress"    // the controllers are at work
	Spec        Concern = "Spec"        // a field of the object itself
	ClassField  Concern = "ClassField"  // a field of the MachineClass
	SecretKey   Concern = "SecretKey"   // a Secret or an entry of it
	Credentials Concern = "Credentials" // the cloud refuses them
	Quota       Concern = "Quota"       // the account may not have more
	Capacity    Concern = "Capacity"    // the cloud has no more
	Rate        Concern = "Rate"        // too many calls or replacements at a time
	Cloud       Concern = "Cloud"       // the cloud's API, or the VM in it
	Addresses   Concern = "Addresses"   // IP pools and claims
	APIServer   Concern = "APIServer"   // it does not answer
	Permissions Concern = "Permissions" // it refuses a request
	Boot        Concern = "Boot"        // what runs on the VM before it is used
	Join        Concern = "Join"        // the node does not register
	Health      Concern = "Health"      // the node is unhealthy
	Drain       Concern = "Drain"       // pods and PodDisruptionBudgets
	Volume      Concern = "Volume"      // volumes that are attached
	Hold        Concern = "Hold"        // held by a migration, a hook or a person
	Freeze      Concern = "Freeze"      // too many machines
	Outage      Concern = "Outage"      // nodes were lost together
	Paused      Concern = "Paused"      // by a person
	Order       Concern = "Order"       // another object comes first
	Manager     Concern = "Manager"     // no manager is at work
	Unknown     Concern = "Unknown"     // the reason is of another project
)

// concerns are all that a row of the table may have.
var concerns = []Concern{
	None, Progress, Spec, ClassField, SecretKey, Credentials, Quota, Capacity, Rate, Cloud, Addresses, APIServer,
	Permissions, Boot, Join, Health, Drain, Volume, Hold, Freeze, Outage, Paused, Order, Manager,
}

func (c Concern) valid() bool { return slices.Contains(concerns, c) }

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

// StepState is how far a step is.
type StepState string

// The states of a step.
const (
	StepDone    StepState = "Done"
	StepMissing StepState = "Missing"
	StepLater   StepState = "Later" // a step before it is missing
)

// Step is a part of what was asked for.
type Step struct {
	Name    string       `json:"name"`
	State   StepState    `json:"state"`
	Object  Ref          `json:"object"`
	Reason  string       `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`

	finding *Finding
}

// chain builds the steps of an object. After the first step that is missing all others are
// for later.
type chain struct {
	facts *Facts
	steps []Step
}

// done adds a step that is complete, unless an earlier one is missing.
func (c *chain) done(name string, o *Object, message string, since time.Time) {
	state := StepDone
	if c.missing() != nil {
		state, message, since = StepLater, "", time.Time{}
	}
	c.steps = append(c.steps, Step{Name: name, State: state, Object: o.Ref, Message: message, Since: at(since)})
}

// lacks adds a step that is missing for the reason of a condition.
func (c *chain) lacks(name string, o *Object, cond Condition) {
	if c.missing() != nil {
		c.steps = append(c.steps, Step{Name: name, State: StepLater, Object: o.Ref})
		return
	}
	f := c.facts.judge(o, cond)
	c.lacksFinding(name, f)
}

// lacksFinding adds a step that is missing for a reason that is already judged.
func (c *chain) lacksFinding(name string, f *Finding) {
	state := StepMissing
	if c.missing() != nil && !f.beside {
		state = StepLater
	}
	c.steps = append(c.steps, Step{
		Name: name, State: state, Object: f.Object, Reason: f.Reason, Message: f.Message, Since: f.Since, finding: f,
	})
}

// lacksBeside adds a step that is missing and that no other step waits for.
func (c *chain) lacksBeside(name string, o *Object, cond Condition) {
	f := c.facts.judge(o, cond)
	f.beside = true
	c.lacksFinding(name, f)
}

// must adds a step for a condition that should be True: it is missing while it is not.
func (c *chain) must(name string, o *Object, kind string) {
	cond := o.condition(kind)
	switch {
	case cond == nil:
		c.lacks(name, o, Condition{
			Type: kind, Reason: reasonNotObserved, Since: o.Created,
			Message: "condition " + kind + " of " + o.Kind + " " + o.Name + " has not been written yet",
		})
	case cond.Status == metav1.ConditionTrue:
		c.done(name, o, cmp.Or(cond.Message, cond.Reason), cond.Since)
	default:
		c.lacks(name, o, *cond)
	}
}

// mustNot adds a step only where one of these conditions is True: something holds the object.
func (c *chain) mustNot(o *Object, kinds ...string) {
	for _, kind := range kinds {
		if cond := o.condition(kind); cond != nil && cond.Status == metav1.ConditionTrue {
			c.lacks(stepHold, o, c.facts.pauseOf(o, *cond))
			return
		}
	}
}

// missing is the first step that is missing and that others wait for; nil if there is none.
func (c *chain) missing() *Step { return c.first(false) }

// first is the first step that is missing, of those beside the others or of the others.
func (c *chain) first(beside bool) *Step {
	for i := range c.steps {
		if c.steps[i].State == StepMissing && c.steps[i].finding.beside == beside {
			return &c.steps[i]
		}
	}
	return nil
}

func at(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	out := metav1.NewTime(t.UTC())
	return &out
}
