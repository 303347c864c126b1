package orphan

import (
	"fmt"
	"slices"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// action is what to do about a resource.
type action uint8

const (
	keep    action = iota // it is somebody's, or going by itself
	suspect               // nobody's, and not yet sure enough
	remove                // nobody's
	report                // nobody can tell: a person has to look
)

// verdict is an action and why.
type verdict struct {
	action action
	why    string // empty for keep
	// owned is set if an owner exists, which has another VM.
	owned bool
}

// sighting is a resource as one look shows it.
type sighting struct {
	resource cloud.Resource
	owners   []Owner   // who may own it
	first    time.Time // first look that found it orphaned, zero if none did
	// inUse is set if removing what is left of its owner could take a VM that stays.
	inUse bool
}

// rules are what sightings are judged by.
type rules struct {
	now     time.Time     // when the look began
	minAge  time.Duration // younger resources stay
	confirm time.Duration // from the first look to the deciding one
	decode  func(providerID string) (id string, ok bool)
}

// decide says what becomes of a resource. It is pure and total.
func (r rules) decide(s sighting) verdict {
	if s.resource.Attached || going(s.resource) {
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
	// Parts without owner id are never taken: MCM did not either, and a volume may
	// be wanted. Parts of a machine that exists go with the machine.
	if s.resource.OwnerID == "" || s.inUse || len(heirs(s)) > 0 {
		return verdict{}
	}
	return r.orphan(s, fmt.Sprintf("no machine has owner id %s", s.resource.OwnerID))
}

func (r rules) decideVM(s sighting) verdict {
	if slices.ContainsFunc(s.owners, func(o Owner) bool { return r.names(o, s.resource) }) {
		return verdict{}
	}
	family := heirs(s)
	if slices.ContainsFunc(family, func(o Owner) bool { return o.Creating }) {
		return verdict{}
	}
	for _, o := range family {
		if _, ok := r.decode(o.ProviderID); !ok {
			return verdict{action: report, why: fmt.Sprintf("%s has providerID %q, which is none of this cloud's", o.Text,
				o.ProviderID)}
		}
	}
	switch {
	case len(family) > 0:
		v := r.orphan(s, fmt.Sprintf("%s has another VM, %s", family[0].Text, family[0].ProviderID))
		v.owned = true
		return v
	case s.resource.OwnerID != "":
		return r.orphan(s, fmt.Sprintf("no machine has owner id %s", s.resource.OwnerID))
	case s.resource.MachineName != "":
		return r.orphan(s, fmt.Sprintf("there is no machine %s", s.resource.MachineName))
	default:
		return verdict{action: report, why: "it carries neither an owner id nor the name of a machine"}
	}
}

// orphan is the verdict on a resource that is nobody's now.
func (r rules) orphan(s sighting, why string) verdict {
	if s.first.IsZero() || r.now.Before(r.ripe(s)) {
		return verdict{action: suspect, why: why}
	}
	return verdict{action: remove, why: why}
}

// ripe is when an orphan may be removed: some time after it was first seen as
// one, and not before it has the minimum age. Where the cloud does not tell its
// age, it counts from that look.
func (r rules) ripe(s sighting) time.Time {
	first, born := s.first, s.resource.Created
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

// heirs are the owners that the resource's tags name: by owner id if it has one,
// else by the name of the machine.
func heirs(s sighting) []Owner {
	var found []Owner
	for _, o := range s.owners {
		if s.resource.OwnerID != "" && o.ID == s.resource.OwnerID ||
			s.resource.OwnerID == "" && s.resource.MachineName != "" && o.Name == s.resource.MachineName {
			found = append(found, o)
		}
	}
	return found
}

func going(r cloud.Resource) bool { return r.VM != nil && r.VM.State == cloud.StateDeleting }
