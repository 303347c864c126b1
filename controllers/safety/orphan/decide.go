package orphan

import (
	"fmt"
	"slices"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// action is what to do about a resource.
type action uint8

const (
	keep    action = iota // it has an owner, or is being deleted
	suspect               // it has no owner; the next scan has to confirm that
	remove                // it has no owner
	report                // it is unknown whether it has an owner: a person has to decide
)

// verdict is an action and why.
type verdict struct {
	action action
	why    string // empty for keep
	// owned is true if an owner exists that has another VM.
	owned bool
}

// candidate is a resource as one scan shows it.
type candidate struct {
	resource  cloud.Resource
	owners    []Owner   // who may own it
	firstSeen time.Time // first scan that found it without an owner; zero if none did
	// inUse is true if removing the parts of its owner could remove a VM that stays.
	inUse bool
}

// rules decide about candidates.
type rules struct {
	now     time.Time     // when the scan began
	minAge  time.Duration // of a resource that is removed
	confirm time.Duration // from the first scan to the deciding one
	decode  func(providerID string) (id string, ok bool)
	kept    map[string]bool // IDs of VMs that a person wants to stay
}

// decide returns what to do with a resource. It is pure.
func (r rules) decide(s candidate) verdict {
	if s.resource.Attached || isDeleting(s.resource) || r.isKept(s.resource) {
		return verdict{}
	}
	for _, o := range s.owners {
		if o.Held != "" {
			return verdict{}
		}
	}
	if s.resource.Kind == cloud.KindVM {
		return r.decideVM(s)
	}
	// Parts without an owner ID are never removed: MCM does not either, and somebody may
	// need a volume. Parts of a machine that exists are deleted with the machine.
	if s.resource.OwnerID == "" || s.inUse || len(ownersByTag(s)) > 0 {
		return verdict{}
	}
	why := fmt.Sprintf("no machine has the owner ID %s", s.resource.OwnerID)
	switch s.resource.Retention {
	case cloud.RetentionKeep: // it was to outlive its machine
		return verdict{}
	case cloud.RetentionUndecided:
		v := r.orphan(s, why)
		if v.action == remove {
			v.action = report
			v.why += ", and nothing shows whether it was to outlive its VM; delete it yourself, or decide with the tag " +
				machinev1.OnTerminationTag + ": delete has it removed, keep leaves it without another word"
		}
		return v
	case cloud.RetentionDelete:
	}
	return r.orphan(s, why)
}

// isKept reports whether a person wants a VM to stay.
func (r rules) isKept(resource cloud.Resource) bool {
	return resource.Kind == cloud.KindVM && r.kept[resource.ID]
}

func (r rules) decideVM(s candidate) verdict {
	if slices.ContainsFunc(s.owners, func(o Owner) bool { return r.names(o, s.resource) }) {
		return verdict{}
	}
	family := ownersByTag(s)
	if slices.ContainsFunc(family, func(o Owner) bool { return o.Creating }) {
		return verdict{}
	}
	for _, o := range family {
		if _, ok := r.decode(o.ProviderID); !ok {
			return verdict{action: report, why: fmt.Sprintf("%s has providerID %q, which is not one of this cloud", o.Text,
				o.ProviderID)}
		}
	}
	switch {
	case len(family) > 0:
		v := r.orphan(s, fmt.Sprintf("%s has another VM, %s", family[0].Text, family[0].ProviderID))
		v.owned = true
		return v
	case s.resource.OwnerID != "":
		return r.orphan(s, fmt.Sprintf("no machine has the owner ID %s", s.resource.OwnerID))
	case s.resource.MachineName != "":
		return r.orphan(s, fmt.Sprintf("machine %s does not exist", s.resource.MachineName))
	default:
		return verdict{action: report, why: "it has neither an owner ID nor the name of a machine"}
	}
}

// orphan returns the verdict on a resource that has no owner now.
func (r rules) orphan(s candidate, why string) verdict {
	if s.firstSeen.IsZero() || r.now.Before(r.removableAt(s)) {
		return verdict{action: suspect, why: why}
	}
	return verdict{action: remove, why: why}
}

// removableAt returns when an orphan may be removed: some time after it was first seen
// without an owner, and not before it has the minimum age. Where the cloud does not
// report when it was created, the age counts from the first scan.
func (r rules) removableAt(s candidate) time.Time {
	first, born := s.firstSeen, s.resource.Created
	if first.IsZero() {
		first = r.now
	}
	if born.IsZero() {
		born = first
	}
	confirmed, grown := first.Add(r.confirm), born.Add(r.minAge)
	if grown.After(confirmed) {
		return grown
	}
	return confirmed
}

// names reports whether o's providerID, in any known form, is that of the VM.
func (r rules) names(o Owner, vm cloud.Resource) bool {
	if o.ProviderID == "" {
		return false
	}
	if vm.VM != nil && (o.ProviderID == vm.VM.ProviderID || o.ProviderID == vm.VM.NodeProviderID) {
		return true
	}
	id, ok := r.decode(o.ProviderID)
	return ok && id == vm.ID
}

// ownersByTag returns the owners that the tags of the resource name: by owner ID if it
// has one, else by the name of the machine.
func ownersByTag(s candidate) []Owner {
	var found []Owner
	for _, o := range s.owners {
		if s.resource.OwnerID != "" && o.ID == s.resource.OwnerID ||
			s.resource.OwnerID == "" && s.resource.MachineName != "" && o.Name == s.resource.MachineName {
			found = append(found, o)
		}
	}
	return found
}

func isDeleting(r cloud.Resource) bool { return r.VM != nil && r.VM.State == cloud.StateDeleting }
