package orphan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// testRules judge providerIDs "<form>:/<id>".
var testRules = rules{
	now: now, minAge: 5 * time.Minute, confirm: time.Minute,
	decode: func(p string) (string, bool) {
		form, id, ok := strings.Cut(p, ":/")
		return id, ok && (form == "mcm" || form == "node")
	},
}

func vm(change ...func(*cloud.Resource)) cloud.Resource {
	r := cloud.Resource{
		Kind: cloud.KindVM, ID: "i-1", MachineName: "m", OwnerID: "o", Created: now.Add(-time.Hour),
		VM: &cloud.VM{ID: "i-1", ProviderID: "mcm:/i-1", NodeProviderID: "node:/i-1", State: cloud.StateRunning},
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

func disk(change ...func(*cloud.Resource)) cloud.Resource {
	r := vm(change...)
	r.Kind, r.ID, r.VM = cloud.KindDisk, "d-1", nil
	return r
}

func owner(change ...func(*Owner)) []Owner {
	o := Owner{Text: "Machine default/m", Name: "m", ID: "o", ProviderID: "mcm:/i-1"}
	for _, f := range change {
		f(&o)
	}
	return []Owner{o}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	old := func(r *cloud.Resource) { r.OwnerID = "" } // made by MCM
	nameless := func(r *cloud.Resource) { r.MachineName = "" }
	ageless := func(r *cloud.Resource) { r.Created = time.Time{} }
	young := func(r *cloud.Resource) { r.Created = now.Add(-4 * time.Minute) }
	attached := func(r *cloud.Resource) { r.Attached = true }
	leaving := func(r *cloud.Resource) { r.VM.State = cloud.StateDeleting }
	stranger := func(o *Owner) { o.ID, o.Name = "p", "n" }
	otherID := func(o *Owner) { o.ID = "p" }
	has := func(providerID string) func(*Owner) { return func(o *Owner) { o.ProviderID = providerID } }
	creating := func(o *Owner) { o.ProviderID, o.Creating = "", true }
	crashing := func(o *Owner) { o.ProviderID, o.Creating = "mcm:/i-2", true }
	heldBy := func(o *Owner) { o.Held, o.ProviderID = "it moves", "mcm:/i-2" }
	seen := now.Add(-time.Minute)
	cases := map[string]struct {
		reason    string
		resource  cloud.Resource
		owners    []Owner
		firstSeen time.Time
		inUse     bool
		want      action
	}{
		"Owned": {reason: "The VM of a machine stays.", resource: vm(), owners: owner(), firstSeen: seen, want: keep},
		"OwnedNodeForm": {
			reason: "The Node's form of a providerID is as good as MCM's.", resource: vm(),
			owners: owner(has("node:/i-1")), firstSeen: seen, want: keep,
		},
		"OwnedOtherForm": {reason: "Forms are compared by what they mean.", resource: vm(func(r *cloud.Resource) {
			r.VM.NodeProviderID = ""
		}), owners: owner(has("node:/i-1")), firstSeen: seen, want: keep},
		"Adopted": {
			reason: "A machine of any name and id that names the VM has it.", resource: vm(),
			owners: owner(stranger), firstSeen: seen, want: keep,
		},
		"Creating": {
			reason: "A machine that does not know its VM yet may have this one.", resource: vm(),
			owners: owner(creating), firstSeen: seen, want: keep,
		},
		"Crashing": {
			reason: "So may one whose creation is being repeated.", resource: vm(), owners: owner(crashing),
			firstSeen: seen, want: keep,
		},
		"Held": {
			reason: "Nothing of a machine that moves is touched.", resource: vm(), owners: owner(heldBy),
			firstSeen: seen, want: keep,
		},
		"Second": {
			reason: "Of several VMs of one machine, the one it names stays and the others go.", resource: vm(),
			owners: owner(has("mcm:/i-2")), firstSeen: seen, want: remove,
		},
		"SecondUnsure": {
			reason: "A providerID that says nothing condemns nothing.", resource: vm(),
			owners: owner(has("what?")), firstSeen: seen, want: report,
		},
		"Unowned": {reason: "No owner, two looks, old enough.", resource: vm(), firstSeen: seen, want: remove},
		"OtherOwnerID": {
			reason: "A machine of that name with another owner id is another machine.", resource: vm(),
			owners: owner(otherID, creating), firstSeen: seen, want: remove,
		},
		"FirstLook": {reason: "One look is not enough.", resource: vm(), want: suspect},
		"TooSoon": {
			reason: "The second look comes some time after the first.", resource: vm(),
			firstSeen: now.Add(-59 * time.Second), want: suspect,
		},
		"Young": {
			reason: "Young VMs stay, however often they are seen.", resource: vm(young), firstSeen: seen,
			want: suspect,
		},
		"AgeUnknown": {
			reason: "Without age it counts from the first look.", resource: vm(ageless), firstSeen: seen,
			want: suspect,
		},
		"AgeUnknownLong": {
			reason: "And ends some time.", resource: vm(ageless), firstSeen: now.Add(-5 * time.Minute),
			want: remove,
		},
		"Going": {reason: "What goes by itself needs no help.", resource: vm(leaving), firstSeen: seen, want: keep},
		"MCMOwned": {
			reason: "MCM's VMs are found by name and providerID.", resource: vm(old), owners: owner(otherID),
			firstSeen: seen, want: keep,
		},
		"MCMCreating": {
			reason: "MCM's rule spares machines that are being created.", resource: vm(old),
			owners: owner(otherID, creating), firstSeen: seen, want: keep,
		},
		"MCMOtherVM": {
			reason: "MCM's rule: the machine has another VM.", resource: vm(old),
			owners: owner(otherID, has("mcm:/i-2")), firstSeen: seen, want: remove,
		},
		"MCMNoMachine": {reason: "MCM's rule: there is no such machine.", resource: vm(old), firstSeen: seen, want: remove},
		"Nameless": {
			reason:   "A VM that says nothing about its machine cannot be proved to be nobody's.",
			resource: vm(old, nameless), firstSeen: seen, want: report,
		},
		"Disk": {reason: "Disks that nobody owns go.", resource: disk(), firstSeen: seen, want: remove},
		"DiskOwned": {
			reason: "A loose disk of a machine goes with it.", resource: disk(),
			owners: owner(has("mcm:/i-2")), firstSeen: seen, want: keep,
		},
		"DiskAttached": {reason: "A part of a VM goes with it.", resource: disk(attached), firstSeen: seen, want: keep},
		"DiskInUse": {
			reason: "Removing by owner id would take a VM that stays.", resource: disk(), firstSeen: seen,
			inUse: true, want: keep,
		},
		"DiskOfMCM": {
			reason:   "Nobody ever collected disks without owner id; somebody may want them.",
			resource: disk(old), firstSeen: seen, want: keep,
		},
		"DiskFirstLook": {reason: "Parts take two looks too.", resource: disk(), want: suspect},
		"DiskOtherOwner": {
			reason: "The owner id decides, not the name.", resource: disk(), owners: owner(otherID),
			firstSeen: seen, want: remove,
		},
		"Nothing": {
			reason: "Even an empty resource gets a verdict.", resource: cloud.Resource{Kind: cloud.KindVM},
			firstSeen: seen, want: report,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := testRules.decide(candidate{
				resource: tc.resource, owners: tc.owners, firstSeen: tc.firstSeen,
				inUse: tc.inUse,
			})
			if got.action != tc.want || (got.why == "") != (tc.want == keep) {
				t.Errorf("decide() = %d %q, want %d: %s", got.action, got.why, tc.want, tc.reason)
			}
		})
	}
}

func TestRipe(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason    string
		candidate candidate
		want      time.Time
	}{
		"New": {"After the first look comes the confirming one.", candidate{resource: vm()}, now.Add(time.Minute)},
		"Seen": {
			"The delay counts from the first look.",
			candidate{resource: vm(), firstSeen: now.Add(-30 * time.Second)},
			now.Add(30 * time.Second),
		},
		"Young": {"A young VM is looked at again when it has grown.", candidate{resource: vm(func(r *cloud.Resource) {
			r.Created = now
		})}, now.Add(5 * time.Minute)},
		"Ageless": {"So is one of unknown age.", candidate{resource: vm(func(r *cloud.Resource) {
			r.Created = time.Time{}
		})}, now.Add(5 * time.Minute)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, testRules.removableAt(tc.candidate)); diff != "" {
				t.Errorf("ripe (-want +got): %s\n%s", tc.reason, diff)
			}
		})
	}
}
