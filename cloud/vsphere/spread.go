package vsphere

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// spread chooses zones for VMs of classes that leave the choice.
type spread struct {
	now func() time.Time

	mu     sync.Mutex
	chosen map[member]choice
	full   map[member]time.Time // since when a zone, as the machine of its class, is out of capacity
}

// member is a machine, or a zone, of a class.
type member struct{ class, name string }

type choice struct {
	zone string
	at   time.Time
}

// How long a choice counts although no VM is seen yet, and how long a zone without
// capacity comes after all others.
const (
	choiceKept = 10 * time.Minute
	fullKept   = 5 * time.Minute
)

// classKey tells classes apart in marks.
func classKey(c cloud.Class) string { return c.Namespace + "/" + c.Name }

// zoneFor returns the zone of a new VM of r: the one that was asked for, else the one
// that was chosen before, else the class's, else the one where the class has the
// fewest VMs. Zones that turned out to be full under this token are left out.
func (a *account) zoneFor(ctx context.Context, s *spec, r cloud.CreateRequest, n note) (string, error) {
	switch {
	case r.Zone != "":
		return r.Zone, nil
	case s.Zone != "" || len(s.Zones) == 0:
		return s.Zone, nil
	case slices.Contains(s.zoneNames(), n.Zone):
		return n.Zone, nil
	}
	vms, err := a.scans.Do(ctx, "read folder", folder{s.Datacenter, s.Folder}, s)
	if err != nil {
		return "", err
	}
	left := s.zonesBut(n.Full)
	if len(left) == 0 {
		left = s.zoneNames()
	}
	return a.spread.choose(s, r, left, vms), nil
}

// zonesBut are the zones that the class lists without those, sorted.
func (s *spec) zonesBut(full []string) []string {
	return slices.DeleteFunc(s.zoneNames(), func(z string) bool { return slices.Contains(full, z) })
}

// freeToChoose reports whether the zone of r is the driver's choice.
func (s *spec) freeToChoose(r cloud.CreateRequest) bool {
	return r.Zone == "" && s.Zone == "" && len(s.Zones) > 1
}

// choose returns the zone with the fewest VMs of the class, those of which none is
// seen yet included, and remembers it. Zones that were full lately come last.
func (p *spread) choose(s *spec, r cloud.CreateRequest, zones []string, vms []*seen) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	class := classKey(r.Class)
	weight := p.count(s, r, vms)
	for _, z := range zones {
		if since, ok := p.full[member{class, z}]; ok && p.now().Sub(since) < fullKept {
			weight[z] += math.MaxInt32
		}
	}
	// Equal counts are drawn by the token, so that processes do not fill one zone first.
	shift := draw(r.Token, len(zones))
	zones = slices.Concat(zones[shift:], zones[:shift])
	best := slices.MinFunc(zones, func(a, b string) int { return cmp.Compare(weight[a], weight[b]) })
	p.chosen[member{class, r.Name}] = choice{best, p.now()}
	return best
}

// count returns how many other machines of the class each zone has. The lock is held.
func (p *spread) count(s *spec, r cloud.CreateRequest, vms []*seen) map[string]int64 {
	class, count := classKey(r.Class), map[string]int64{}
	for _, vm := range vms {
		if vm.mark != nil && vm.mark.Class == class && s.owns(vm.tags) {
			count[vm.mark.Zone]++
			delete(p.chosen, member{class, vm.machine()})
		}
	}
	maps.DeleteFunc(p.chosen, func(_ member, c choice) bool { return p.now().Sub(c.at) > choiceKept })
	for who, c := range p.chosen {
		if who.class == class && who.name != r.Name {
			count[c.zone]++
		}
	}
	return count
}

// outOf takes note that a zone has no capacity for VMs of the class.
func (p *spread) outOf(c cloud.Class, zone string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.full[member{classKey(c), zone}] = p.now()
}

// elsewhere returns the note with which another zone is tried, after the one in n was
// out of capacity; ok is false when that is none of the driver's choice, or no zone
// is left.
func (a *account) elsewhere(s *spec, r cloud.CreateRequest, n note, err error) (next note, ok bool) {
	if cloud.CodeOf(fail(opCreate, err)) != cloud.Exhausted || n.Zone == "" || !s.freeToChoose(r) {
		return n, false
	}
	a.spread.outOf(r.Class, n.Zone)
	next = note{Token: n.Token, Clone: n.Clone, Full: append(slices.Clone(n.Full), n.Zone)}
	return next, len(s.zonesBut(next.Full)) > 0
}
