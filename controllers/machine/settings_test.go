package machine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

func TestSettingsOf(t *testing.T) {
	t.Parallel()
	flags := Options{
		CreationTimeout: 20 * time.Minute, HealthTimeout: 10 * time.Minute, MaxEvictRetries: 360,
		NodeConditions: []string{"A"},
	}
	cases := map[string]struct {
		reason   string
		change   func(*machinev1.Machine)
		check    func(settings) bool
		warnings int
	}{
		"Flags": {
			reason: "Without a word in the spec the flags apply.", change: func(*machinev1.Machine) {},
			check: func(s settings) bool { return s.creation == 20*time.Minute && s.maxEvictRetries == 360 },
		},
		"Spec": {
			reason: "The spec wins over the flags.",
			change: func(m *machinev1.Machine) {
				m.Spec.MachineConfiguration = &machinev1.MachineConfiguration{
					MachineCreationTimeout: &metav1.Duration{Duration: time.Minute}, MaxEvictRetries: new(int32(0)),
					NodeConditions: new(" X , ,Y"),
				}
			},
			check: func(s settings) bool {
				return s.creation == time.Minute && s.maxEvictRetries == 0 && len(s.nodeConditions) == 2 &&
					s.nodeConditions[0] == "X"
			},
		},
		"Annotation": {
			reason: "The effective creation timeout wins over the spec.",
			change: func(m *machinev1.Machine) {
				m.Annotations = map[string]string{machinev1.EffectiveCreationTimeoutAnnotation: "30m"}
				m.Spec.MachineConfiguration = &machinev1.MachineConfiguration{
					MachineCreationTimeout: &metav1.Duration{Duration: time.Minute},
				}
			},
			check: func(s settings) bool { return s.creation == 30*time.Minute },
		},
		"Unreadable": {
			reason: "What cannot be read does not count, and is told.",
			change: func(m *machinev1.Machine) {
				m.Annotations = map[string]string{
					machinev1.EffectiveCreationTimeoutAnnotation: "soon",
					machinev1.CreateAttemptAnnotation:            "x",
				}
				m.Labels = map[string]string{machinev1.ForceDeletionLabel: "maybe"}
			},
			check: func(s settings) bool { return s.creation == 20*time.Minute }, warnings: 3,
		},
		"Zero": {
			reason: "As in MCM, 0 is no time at all and not the flag's.",
			change: func(m *machinev1.Machine) {
				zero := &metav1.Duration{}
				m.Spec.MachineConfiguration = &machinev1.MachineConfiguration{
					MachineHealthTimeout: zero, MachineDrainTimeout: zero, MachineCreationTimeout: zero,
					MachineInPlaceUpdateTimeout: zero, MachinePreserveTimeout: zero, MaxEvictRetries: new(int32(0)),
				}
			},
			check: func(s settings) bool {
				return s.health+s.drain+s.creation+s.inPlace+s.preserve == 0 && s.maxEvictRetries == 0
			},
			warnings: 3,
		},
		"Negative": {
			reason: "Less than 0 is over at once too.",
			change: func(m *machinev1.Machine) {
				m.Spec.MachineConfiguration = &machinev1.MachineConfiguration{
					MachineHealthTimeout: &metav1.Duration{Duration: -time.Minute},
				}
			},
			check: func(s settings) bool {
				return s.health == 0 && (brake.Query{Health: s.health}).Again() == 15*time.Second
			}, warnings: 1,
		},
		"ZeroAnnotation": {
			reason: "The annotation may be 0 as well.",
			change: func(m *machinev1.Machine) {
				m.Annotations = map[string]string{machinev1.EffectiveCreationTimeoutAnnotation: "0s"}
			},
			check: func(s settings) bool { return s.creation == 0 },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &machinev1.Machine{}
			tc.change(m)
			s, warnings := settingsOf(m, flags)
			if !tc.check(s) || len(warnings) != tc.warnings {
				t.Errorf("settingsOf() = %+v, %q: %s", s, warnings, tc.reason)
			}
		})
	}
}
