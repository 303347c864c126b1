package kubevirt

import (
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// TestState: what KubeVirt's word for a VM that is down means is decided by its runStrategy, as virt-controller's
// handling of each is.
func TestState(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	const pending, off, failed = cloud.StatePending, cloud.StateStopped, cloud.StateFailed
	for _, c := range []struct {
		reason, strategy, word string
		running                *bool
		created                bool   // an instance exists
		ran                    string // status.runStrategy, from the first instance on
		phase                  string // of the instance
		asked                  bool   // to be started
		want                   cloud.State
	}{
		{reason: "between two instances", strategy: "Always", word: stopped, ran: "Always", want: pending},
		{reason: "its pod was evicted", strategy: "Always", word: stopping, created: true, want: pending},
		{reason: "started again after a while", strategy: "Always", word: crashed, want: pending},
		{reason: "MCM's spelling of Always", running: &yes, word: stopped, want: pending},
		{reason: "MCM's spelling of Halted", running: &no, word: stopped, want: off},
		{reason: "somebody has stopped it", strategy: "Halted", word: stopped, want: off},
		{reason: "somebody is stopping it", strategy: "Halted", word: stopping, created: true, want: off},
		{reason: "somebody has started it", strategy: "Halted", word: stopped, asked: true, want: pending},
		{reason: "it never ran", strategy: "RerunOnFailure", word: stopped, want: pending},
		{reason: "shut down", strategy: "RerunOnFailure", word: stopped, ran: "RerunOnFailure", want: off},
		{
			reason: "shut down, in releases that keep the instance", strategy: "RerunOnFailure", word: stopped, created: true,
			phase: "Succeeded", want: off,
		},
		{
			reason: "about to be started again", strategy: "RerunOnFailure", word: stopped, created: true, phase: "Failed",
			want: pending,
		},
		{
			reason: "it failed", strategy: "RerunOnFailure", word: stopping, created: true, ran: "RerunOnFailure", asked: true,
			want: pending,
		},
		{reason: "started again later", strategy: "RerunOnFailure", word: crashed, ran: "RerunOnFailure", want: pending},
		{reason: "it never ran", strategy: "Once", word: stopped, want: pending},
		{reason: "shut down", strategy: "Once", word: stopped, created: true, phase: "Succeeded", want: off},
		{reason: "its pod was evicted", strategy: "Once", word: stopping, created: true, want: pending},
		{reason: "it failed, and stays", strategy: "Once", word: crashed, created: true, phase: "Failed", want: failed},
		{reason: "its instance was deleted", strategy: "Once", word: crashed, want: pending},
		{reason: "nobody has started it", strategy: "Manual", word: stopped, want: off},
		{reason: "somebody has started it", strategy: "Manual", word: stopped, asked: true, want: pending},
		{reason: "the importer is tried again", strategy: "Always", word: dataVolumeError, want: pending},
		{reason: "paused VMs stay so", strategy: "Always", word: paused, created: true, want: off},
	} {
		m := machine{
			Spec:   machineSpec{RunStrategy: c.strategy, Running: c.running},
			Status: machineStatus{PrintableStatus: c.word, Created: c.created, RunStrategy: c.ran},
		}
		if c.asked {
			m.Status.Requests = []changeRequest{{"Start"}}
		}
		var i *instance
		if c.phase != "" {
			i = &instance{}
			i.Status.Phase = c.phase
		}
		if got := m.state(i); got != c.want {
			t.Errorf("%s, %s (%s): got %v, want %v", c.strategy, c.word, c.reason, got, c.want)
		}
	}
}
