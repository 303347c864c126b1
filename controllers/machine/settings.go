package machine

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

// Options are the manager's flags as far as machines go. A timeout of 0 is over at once.
type Options struct {
	CreationTimeout      time.Duration
	HealthTimeout        time.Duration
	DrainTimeout         time.Duration
	InPlaceUpdateTimeout time.Duration
	PreserveTimeout      time.Duration
	PVDetachTimeout      time.Duration
	PVReattachTimeout    time.Duration
	MaxEvictRetries      int32
	// MaxReplacements is how many unhealthy machines of a pool are replaced at a time.
	MaxReplacements brake.Limit
	// RecordJoins has Machines record in status.conditions whether they joined in time.
	RecordJoins bool
	// NodeConditions make a machine unhealthy unless they are False.
	NodeConditions []string
	// BootstrapTokenExtraGroups stand in each bootstrap token.
	BootstrapTokenExtraGroups string
	// ResourceExhaustedRetry is the wait after a lack of capacity; 0 is 10 minutes.
	ResourceExhaustedRetry time.Duration
	// IgnoreOutages replaces machines whose nodes became unhealthy together as if each had
	// failed alone.
	IgnoreOutages bool
	// OutageLimit is how long an outage may keep a machine from being replaced; 0 is
	// 2 hours.
	OutageLimit time.Duration
}

// ParseMaxReplacements reads a number from 1, or a percentage from 1% to 100%.
func ParseMaxReplacements(text string) (brake.Limit, error) { return brake.ParseLimit(text) }

// NewBrake returns the brake that these options ask for. nodes is the cluster with the Nodes; nil: there are none.
func (o Options) NewBrake(c client.Reader, nodes *target.Cluster, clock clock.PassiveClock) *brake.Brake {
	d := brake.Deps{
		Client: c, Clock: clock, Limit: o.MaxReplacements, IgnoreOutages: o.IgnoreOutages, OutageLimit: o.OutageLimit,
	}
	if nodes != nil {
		d.Nodes = nodes.Client
	}
	return brake.New(d)
}

// settings are the limits of one machine: its spec's, else the manager's.
type settings struct {
	creation, health, drain, inPlace, preserve time.Duration

	maxEvictRetries int32
	nodeConditions  []string
	neverFails      bool
	recordsJoin     bool

	// thawed is when an API server was reachable again; what a node did before
	// counts for nothing.
	thawed time.Time
}

// settingsOf returns the limits of m, and a warning for each that is written in
// a way that cannot be read, which then does not count.
func settingsOf(m *machinev1.Machine, o Options) (settings, []string) {
	c := ptr.Deref(m.Spec.MachineConfiguration, machinev1.MachineConfiguration{})
	s := settings{
		creation:        duration(c.MachineCreationTimeout, o.CreationTimeout),
		health:          duration(c.MachineHealthTimeout, o.HealthTimeout),
		drain:           duration(c.MachineDrainTimeout, o.DrainTimeout),
		inPlace:         duration(c.MachineInPlaceUpdateTimeout, o.InPlaceUpdateTimeout),
		preserve:        duration(c.MachinePreserveTimeout, o.PreserveTimeout),
		maxEvictRetries: ptr.Deref(c.MaxEvictRetries, o.MaxEvictRetries),
		nodeConditions:  o.NodeConditions,
		recordsJoin:     o.RecordJoins,
		neverFails:      ptr.Deref(c.DisableHealthTimeout, false),
	}
	if c.NodeConditions != nil {
		s.nodeConditions = splitList(*c.NodeConditions)
	}
	warnings := append(zeroWarnings(c), rankWarnings(m)...)
	if v, ok := m.Annotations[machinev1.EffectiveCreationTimeoutAnnotation]; ok {
		if d, err := time.ParseDuration(v); err == nil && d >= 0 {
			s.creation = d
		} else {
			warnings = append(warnings, annotationWarning(machinev1.EffectiveCreationTimeoutAnnotation, v,
				"a duration such as 20m"))
		}
	}
	if v, ok := m.Annotations[machinev1.CreateAttemptAnnotation]; ok && attemptOf(m) < 2 && v != vm.AttemptUnknown {
		warnings = append(warnings, annotationWarning(machinev1.CreateAttemptAnnotation, v, "a number from 2"))
	}
	return s, append(warnings, forceWarnings(m)...)
}

// zeroWarnings are about timeouts of 0, which MCM has as no time at all and some users
// mean as none.
func zeroWarnings(c machinev1.MachineConfiguration) []string {
	var warnings []string
	for _, t := range []struct {
		field string
		value *metav1.Duration
	}{
		{"creationTimeout", c.MachineCreationTimeout},
		{"healthTimeout", c.MachineHealthTimeout},
		{"inPlaceUpdateTimeout", c.MachineInPlaceUpdateTimeout},
	} {
		if t.value != nil && t.value.Duration <= 0 {
			warnings = append(warnings, fmt.Sprintf("spec.%s: %s is over at once, set a longer one or remove it for the "+
				"manager's", t.field, t.value.Duration))
		}
	}
	return warnings
}

// forceWarnings are about labels that are to be bools.
func forceWarnings(m *machinev1.Machine) []string {
	var warnings []string
	for _, label := range []string{machinev1.ForceDeletionLabel, machinev1.ForceDrainLabel} {
		v, ok := m.Labels[label]
		if _, err := strconv.ParseBool(v); ok && err != nil {
			warnings = append(warnings, fmt.Sprintf("metadata.labels[%s]: %q is not read as a bool, set it to True or remove it",
				label, v))
		}
	}
	return warnings
}

// rankWarnings are about what a MachineSet orders its deletions by.
func rankWarnings(m *machinev1.Machine) []string {
	var warnings []string
	if v, ok := m.Annotations[machinev1.PriorityAnnotation]; ok {
		if _, err := strconv.Atoi(v); err != nil {
			warnings = append(warnings, annotationWarning(machinev1.PriorityAnnotation, v, "a number"))
		}
	}
	if v, ok := m.Annotations[machinev1.MarkedForDeletionAnnotation]; ok {
		if _, err := time.Parse(time.RFC3339, v); err != nil {
			warnings = append(warnings, annotationWarning(machinev1.MarkedForDeletionAnnotation, v,
				"a time such as 2006-01-02T15:04:05Z"))
		}
	}
	return warnings
}

func annotationWarning(key, value, want string) string {
	return fmt.Sprintf("metadata.annotations[%s]: %q is not %s, correct or remove it", key, value, want)
}

// attemptOf returns the number of the current attempt at the VM, from 1.
func attemptOf(m *machinev1.Machine) int {
	if n, err := strconv.Atoi(m.Annotations[machinev1.CreateAttemptAnnotation]); err == nil && n > 1 {
		return n
	}
	return 1
}

// forceDeletion reports whether the user wants m deleted by force.
func forceDeletion(m *machinev1.Machine) bool { return labelTrue(m, machinev1.ForceDeletionLabel) }

// forceDrain reports whether the user wants no pod of m waited for, while m is
// preserved or updated in place.
func forceDrain(m *machinev1.Machine) bool { return labelTrue(m, machinev1.ForceDrainLabel) }

func labelTrue(m *machinev1.Machine, label string) bool {
	set, err := strconv.ParseBool(m.Labels[label])
	return err == nil && set
}

// duration returns d, else fallback if d is nil. As in MCM, 0 and less are no time at
// all, not the fallback.
func duration(d *metav1.Duration, fallback time.Duration) time.Duration {
	if d == nil {
		return fallback
	}
	return max(d.Duration, 0)
}

// splitList splits a comma separated list and drops what is empty.
func splitList(list string) []string {
	var items []string
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// problems returns what is wrong with the spec of m: MCM's rules, which a
// Machine without VM must keep. Each names the field and the remedy. A Machine
// whose node joins a cluster carries the node's name, most often its own, as a
// label.
func problems(m *machinev1.Machine, joins bool) []string {
	var found []string
	if joins && !isLabelValue(m.Name) {
		found = append(found, fmt.Sprintf("metadata.name: %d characters, and label %s holds %d; delete the Machine and "+
			"make one with a shorter name",
			len(m.Name), machinev1.NodeLabel, validation.LabelValueMaxLength))
	}
	switch m.Spec.Class.Kind {
	case machinev1.MachineClassKind:
	case "":
		found = append(found, "spec.class.kind: required, set it to MachineClass")
	default:
		found = append(found, fmt.Sprintf("spec.class.kind: %q is not supported, set it to MachineClass", m.Spec.Class.Kind))
	}
	if m.Spec.Class.Name == "" {
		found = append(found, "spec.class.name: required, name a MachineClass of this namespace")
	}
	return found
}

func isLabelValue(name string) bool { return len(validation.IsValidLabelValue(name)) == 0 }
