package vm

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// reasonZoneNotInClass is the reason of the error for a zone that the class cannot honour.
const reasonZoneNotInClass = "ZoneNotInClass"

// zoneUseAge is for how long the machines of a class are not counted again; those
// that get a zone meanwhile are added.
const zoneUseAge = 30 * time.Second

// zoneUse is how many machines of a class are in each zone.
type zoneUse struct {
	counted  time.Time
	machines map[string]int
}

// inZone calls create with the zone of the machine's VM: the one that the machine asks for,
// or, where the class names several, the least used, which is recorded before. A zone
// without room is left for the next one in the same pass; the last error is returned
// when there is none with room.
func (e *Engine) inZone(ctx context.Context, m *Machine, create func(zone string) (cloud.VM, error)) (cloud.VM, error) {
	c, wish := m.Class.Class, m.Request.Zone
	recorded, zones := m.State.Zone, c.NamedZones()
	switch {
	case m.State.ProviderID != "":
		return create(firstOf(wish, recorded))
	case !c.TakesZone(wish):
		return cloud.VM{}, notInClass(c, wish)
	case wish != "" || len(zones) < 2:
		return create(wish)
	}
	zone, left := recorded, zones
	for {
		if !slices.Contains(left, zone) {
			var err error
			if zone, err = e.chooseZone(ctx, m, left); err != nil {
				return cloud.VM{}, err
			}
		}
		made, err := create(zone)
		left = slices.DeleteFunc(slices.Clone(left), func(z string) bool { return z == zone })
		if len(left) == 0 || !soldOutIn(err, zone) {
			return made, err
		}
	}
}

func firstOf(wish, recorded string) string {
	if wish != "" {
		return wish
	}
	return recorded
}

// soldOutIn reports whether err says that this zone has no room.
func soldOutIn(err error, zone string) bool {
	e, ok := errors.AsType[*cloud.Error](err)
	return ok && e.Code == cloud.Exhausted && e.Offering != nil && e.Offering.Zone == zone
}

// chooseZone records the one of zones that has the fewest machines of the class.
func (e *Engine) chooseZone(ctx context.Context, m *Machine, zones []string) (string, error) {
	use, err := e.zonesInUse(ctx, m)
	if err != nil {
		return "", err
	}
	zone := leastUsed(use, zones, m.Ref().OwnerID)
	if err := m.save(ctx, func(s *State) { s.Zone = zone }); err != nil {
		return "", fmt.Errorf("record zone %s: %w", zone, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.zones[classKey(m.Class.Class)].machines[zone]++
	return zone, nil
}

// leastUsed is the zone with the fewest machines. Among equal ones the machine decides,
// so that pools of one machine do not share a zone.
func leastUsed(use map[string]int, zones []string, ownerID string) string {
	rank := func(zone string) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(ownerID + "/" + zone)) // never fails
		return h.Sum64()
	}
	return slices.MinFunc(zones, func(a, b string) int {
		switch {
		case use[a] != use[b]:
			return use[a] - use[b]
		case rank(a) < rank(b):
			return -1
		}
		return 1
	})
}

// zonesInUse returns how many machines of the class each zone has.
func (e *Engine) zonesInUse(ctx context.Context, m *Machine) (map[string]int, error) {
	key, now := classKey(m.Class.Class), e.clock.Now()
	e.mu.Lock()
	known := e.zones[key]
	if known != nil && now.Sub(known.counted) < zoneUseAge {
		defer e.mu.Unlock()
		return maps.Clone(known.machines), nil
	}
	e.mu.Unlock()
	peers, err := m.Peers(ctx)
	if err != nil {
		return nil, fmt.Errorf("count machines by zone: %w", err)
	}
	known = &zoneUse{counted: now, machines: map[string]int{}}
	for i := range peers {
		if !peers[i].Deleting {
			known.machines[peers[i].Zone]++
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.zones[key] = known
	return maps.Clone(known.machines), nil
}

func classKey(c cloud.Class) string { return c.Namespace + "/" + c.Name }

// notInClass is the error for a zone that the class cannot honour.
func notInClass(c cloud.Class, zone string) error {
	has := "it names none"
	if zones := c.NamedZones(); len(zones) > 0 {
		has = "it has " + strings.Join(zones, ", ")
	}
	const field = "spec.failureDomain"
	message := fmt.Sprintf("MachineClass %s cannot place a VM in zone %q: %s; name one of its zones, or another class",
		c.Name, zone, has)
	return &cloud.Error{
		Code: cloud.Invalid, Op: "create VM", Reason: reasonZoneNotInClass,
		Problems: []cloud.Problem{{Severity: cloud.BlocksCreate, Field: field, Message: message}},
		Err:      errors.New(field + ": " + message),
	}
}
