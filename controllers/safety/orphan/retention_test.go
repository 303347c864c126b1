package orphan

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// makePart makes a loose disk with what its tag says of its retention, an hour old.
func (w *env) makePart(name, ownerID, retention string) string {
	w.Helper()
	w.serial++
	all := tags(name, ownerID)
	all[cloud.OnTerminationTag] = retention
	r, err := w.cloud.CreateDisk(demo, "sim-1", sim.DiskInput{ClientToken: name, SizeGiB: 1, Tags: all})
	if err != nil {
		w.Fatal(err)
	}
	w.cloud.Backdate(r.ID, time.Hour)
	return r.ID
}

// TestRetention: a disk that outlives its machine stays without a word, one of which nothing shows
// what was decided stays and is reported once, and only what goes is reported as removed, once.
func TestRetention(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason    string
		retention string
		stays     bool
		event     string // the reason of the one Event about it
	}{
		"Keep":      {"it was promised to stay", "keep", true, ""},
		"Undecided": {"it may have been promised to stay", "", true, eventFound},
		"Unknown":   {"a value of a later version is no permission", "archive", true, eventFound},
		"Delete":    {"it was to go with its machine", "delete", false, eventRemoved},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, Options{}, machineClass("a"))
			id := w.makePart("m-1", "owner-1", tc.retention)
			w.pass("a", 3*time.Hour)
			if w.left()[id] != tc.stays {
				t.Errorf("%s: the disk is left: %v, want %v", tc.reason, w.left()[id], tc.stays)
			}
			var about []string
			for _, text := range w.Heard() {
				if strings.Contains(text, id) {
					about = append(about, text)
				}
			}
			if tc.event == "" && len(about) > 0 || tc.event != "" && (len(about) != 1 || !strings.Contains(about[0], tc.event)) {
				t.Errorf("%s: the Events about it in six periods are\n%s\nwant one with %q, or none if that is empty", tc.reason,
					strings.Join(about, "\n"), tc.event)
			}
			if tc.event == eventFound && !strings.Contains(strings.Join(about, ""), cloud.OnTerminationTag) {
				t.Errorf("the Event names no way out: %v", about)
			}
		})
	}
}

// TestRemovedIsWhatWent: while the cloud is at it, an orphan is not reported as removed.
func TestRemovedIsWhatWent(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a"))
	w.cloud.Change(func(s *sim.Settings) { s.DeleteTime = sim.Duration(10 * time.Minute) })
	w.makeVM("m-1", "lost")
	removed := func() int { return strings.Count(strings.Join(w.Heard(), "\n"), eventRemoved) }
	w.pass("a", 5*time.Minute)
	if left := w.left(); len(left) > 0 {
		t.Fatalf("the orphan is not being removed: %v", left)
	}
	if n := removed(); n > 0 {
		t.Errorf("reported %d times as removed while it is there", n)
	}
	w.pass("a", 20*time.Minute)
	if n := removed(); n != 1 {
		t.Errorf("reported %d times as removed, want once", n)
	}
}

// recorder is an account that remembers which parts are recorded.
type recorder struct {
	cloud.Account
	ids []string
}

func (r *recorder) RecordRetention(_ context.Context, _ cloud.Class, parts []cloud.Resource) error {
	for _, p := range parts {
		r.ids = append(r.ids, p.ID)
	}
	return nil
}

// TestOlderPartsAreRecorded: a scan has the parts of VMs tagged that lack it while the cloud shows what was
// decided about them, many VMs in several scans, and no others.
func TestOlderPartsAreRecorded(t *testing.T) {
	t.Parallel()
	part := func(id string, change func(r *cloud.Resource)) cloud.Resource {
		r := cloud.Resource{
			Kind: cloud.KindDisk, ID: id, OwnerID: "o", Attached: true, Retention: cloud.RetentionKeep,
			Tags: map[string]string{},
		}
		change(&r)
		return r
	}
	account := &recorder{}
	o := &observation{account: account, resources: []cloud.Resource{
		part("older", func(*cloud.Resource) {}),
		part("changed-by-hand", func(r *cloud.Resource) { r.Tags[cloud.OnTerminationTag] = "delete" }),
		part("recorded", func(r *cloud.Resource) { r.Tags[cloud.OnTerminationTag] = "keep" }),
		part("loose", func(r *cloud.Resource) { r.Attached, r.Retention = false, cloud.RetentionUndecided }),
		part("of-mcm", func(r *cloud.Resource) { r.OwnerID = "" }),
		part("of-a-cloud-that-keeps-nothing", func(r *cloud.Resource) { r.Retention = "" }),
	}}
	w := newEnv(t, Options{}, machineClass("a"))
	w.controller.recordRetention(t.Context(), o)
	if got := strings.Join(account.ids, " "); got != "older changed-by-hand" {
		t.Errorf("recorded are %s, want older and changed-by-hand", got)
	}
	account.ids, o.resources = nil, slices.Repeat(o.resources[:1], recordedAtOnce+1)
	w.controller.recordRetention(t.Context(), o)
	if n := len(account.ids); n != recordedAtOnce {
		t.Errorf("%d are recorded in one scan, want %d", n, recordedAtOnce)
	}
}
