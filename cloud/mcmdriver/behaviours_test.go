package mcmdriver_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/mcmdriver"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/mcmdriver/mcmtest"
)

// The types of a driver of MCM's, as small as they may be.
type (
	machine struct {
		Metadata struct{ Name, UID string }
		Spec     struct{ ProviderID string }
	}
	class  struct{ ProviderSpec json.RawMessage }
	secret struct{ Data map[string][]byte }
	onVM   struct {
		Machine      *machine
		MachineClass *class
		Secret       *secret
	}
	onClass struct {
		MachineClass *class
		Secret       *secret
	}
	volumesIn  struct{ PVSpecs []json.RawMessage }
	shown      struct{ ProviderID, NodeName string }
	list       struct{ MachineList map[string]string }
	volumesOut struct{ VolumeIDs []string }
)

const prefix = "stub:///"

// behaviour is how a driver of MCM's answers.
type behaviour struct {
	byID         bool // status and deletion find a VM by its providerID alone
	refusesEmpty bool // they refuse an empty providerID instead of showing nothing
	keepsQuiet   bool // a deletion without a providerID succeeds and does nothing
	needsUID     bool // a VM has the Machine's UID as owner
	goneInternal bool // the status of a VM that is gone is an Internal error, and its deletion done
	showsAny     bool // without a name, the status is that of the first VM
	wraps        bool // the driver writes text around its codes
	nothingToAsk bool // there is neither a status nor a name to look for
	readsLate    bool // only a request for a VM and a deletion read the class, and refuse it as InvalidArgument
}

// stub is a driver with its cloud.
type stub struct {
	behaviour

	mu     sync.Mutex
	vms    map[string]string // name by providerID
	serial int
	lose   bool
	refuse string
	passed time.Duration
}

func (s *stub) fail(code, format string, args ...any) error {
	err := fmt.Errorf("machine codes error: code = [%s] message = [%s]", code, fmt.Sprintf(format, args...))
	if s.wraps {
		return fmt.Errorf("[stub] request 7 failed: %w", err)
	}
	return err
}

func (s *stub) read(c *class) error {
	var spec struct{ Size string }
	if err := json.Unmarshal(c.ProviderSpec, &spec); err != nil {
		if s.readsLate {
			return s.fail("InvalidArgument", "%v", err)
		}
		return s.fail("Internal", "%v", err)
	}
	return nil
}

func (s *stub) add(name string) string {
	s.serial++
	id := fmt.Sprintf("%s%d", prefix, s.serial)
	s.vms[id] = name
	return id
}

func (s *stub) CreateMachine(_ context.Context, in *onVM) (*shown, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.read(in.MachineClass); err != nil {
		return nil, err
	}
	if s.needsUID && in.Machine.Metadata.UID == "" {
		return nil, s.fail("Internal", "metadata.ownerReferences.uid: must not be empty")
	}
	if s.refuse != "" {
		return nil, s.fail(s.refuse, "as the test wants it")
	}
	id := s.add(in.Machine.Metadata.Name)
	if s.lose {
		s.lose = false
		return nil, s.fail("Internal", "connection reset by peer")
	}
	return &shown{id, in.Machine.Metadata.Name}, nil
}

func (s *stub) InitializeMachine(context.Context, *onVM) (*shown, error) {
	return nil, s.fail("Unimplemented", "there is nothing to initialize")
}

// find returns the providerID of the VM that the driver believes to be the Machine's.
func (s *stub) find(in *onVM) (string, error) {
	if err := s.read(in.MachineClass); err != nil {
		return "", err
	}
	id, name := in.Machine.Spec.ProviderID, in.Machine.Metadata.Name
	ids := slices.Sorted(maps.Keys(s.vms))
	switch {
	case s.refusesEmpty && id == "":
		return "", s.fail("InvalidArgument", "%q is no providerID", id)
	case s.showsAny && name == "" && len(ids) > 0 && s.vms[id] == "":
		return ids[0], nil
	case s.vms[id] != "":
		return id, nil
	case id == "" && !s.byID:
		for _, one := range ids {
			if s.vms[one] == name {
				return one, nil
			}
		}
	}
	return "", s.fail("NotFound", "there is no VM")
}

func (s *stub) DeleteMachine(_ context.Context, in *onVM) (*struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, err := s.find(in)
	gone := err != nil && s.read(in.MachineClass) == nil
	if gone && s.goneInternal || in.Machine.Spec.ProviderID == "" && s.keepsQuiet && s.read(in.MachineClass) == nil {
		return &struct{}{}, nil
	}
	if err != nil {
		return nil, err
	}
	delete(s.vms, id)
	return &struct{}{}, nil
}

func (s *stub) GetMachineStatus(_ context.Context, in *onVM) (*shown, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nothingToAsk {
		return nil, s.fail("Unimplemented", "there is no status")
	}
	if s.readsLate {
		in.MachineClass.ProviderSpec = []byte("{}")
	}
	id, err := s.find(in)
	switch {
	case err != nil && s.goneInternal && in.Machine.Spec.ProviderID != "":
		return nil, s.fail("Internal", "404 page not found")
	case err != nil:
		return nil, err
	}
	return &shown{id, s.vms[id]}, nil
}

func (s *stub) ListMachines(_ context.Context, in *onClass) (*list, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.read(in.MachineClass); err != nil && !s.readsLate {
		return nil, err
	}
	return &list{maps.Clone(s.vms)}, nil
}

func (s *stub) GetVolumeIDs(context.Context, *volumesIn) (*volumesOut, error) {
	return nil, s.fail("Unimplemented", "no")
}

// TestEitherOfTwoKeys: a Secret needs one entry of each group.
func TestEitherOfTwoKeys(t *testing.T) {
	t.Parallel()
	d := mcmdriver.Wrap(&stub{}, mcmdriver.Traits{
		Cloud: cloud.Traits{Name: "stub"}, ProviderIDPrefix: prefix, Secret: []string{"url"},
		SecretAny: [][]string{{"token", "apiToken"}, {}},
	})
	for name, tc := range map[string]struct {
		reason string
		creds  cloud.Credentials
		want   string
	}{
		"New": {"the key of today", cloud.Credentials{"url": []byte("u"), "token": []byte("t")}, "[]"},
		"Old": {"the key of before", cloud.Credentials{"url": []byte("u"), "apiToken": []byte("t")}, "[]"},
		"Neither": {
			"blank is missing",
			cloud.Credentials{"url": []byte("u"), "token": []byte(" \n")},
			"[token: is missing in the Secret; add one of token, apiToken]",
		},
		"Nothing": {
			"sorted by field", nil,
			"[token: is missing in the Secret; add one of token, apiToken url: is missing in the Secret; add it]",
		},
	} {
		if got := fmt.Sprint(d.CheckSecret(cloud.Class{}, tc.creds)); got != tc.want {
			t.Errorf("%s: %s: got %s, want %s", name, tc.reason, got, tc.want)
		}
	}
}

// TestBehaviours plays the kit with each way in which published drivers differ from what MCM documents.
func TestBehaviours(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		behaviour
	}{
		"AsDocumented":    {"VMs are found by providerID and by name", behaviour{}},
		"OnlyByID":        {"without a providerID there is nothing to look for", behaviour{byID: true}},
		"RefusesEmpty":    {"an empty providerID cannot be decoded", behaviour{byID: true, refusesEmpty: true}},
		"QuietWithoutID":  {"such a deletion is said to be done", behaviour{byID: true, keepsQuiet: true}},
		"NeedsUID":        {"what it makes is owned by the Machine", behaviour{needsUID: true}},
		"GoneIsInternal":  {"the cloud's 404 is not told apart", behaviour{byID: true, goneInternal: true}},
		"ShowsAny":        {"an empty name in a query matches every VM", behaviour{showsAny: true}},
		"WrapsCodes":      {"MCM reads codes out of any text", behaviour{wraps: true}},
		"WithoutStatus":   {"the list is all that there is", behaviour{nothingToAsk: true}},
		"ReadsLate":       {"status and list need no class", behaviour{readsLate: true}},
		"SeveralTogether": {"bare metal", behaviour{byID: true, keepsQuiet: true, goneInternal: true, wraps: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Log(tc.reason)
			mcmtest.Run(t, func(*testing.T) mcmtest.Harness { return newHarness(tc.behaviour) })
		})
	}
}

func newHarness(b behaviour) mcmtest.Harness {
	s := &stub{behaviour: b, vms: map[string]string{}}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	locked := func(f func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
	}
	return mcmtest.Harness{
		Driver: mcmdriver.Wrap(s, mcmdriver.Traits{
			Cloud: cloud.Traits{Name: "stub", NodeNamed: true}, ProviderIDPrefix: prefix,
			Now: func() (now time.Time) {
				locked(func() { now = start.Add(s.passed) })
				return now
			},
		}),
		Spec: []byte(`{"size":"small"}`), BadSpec: []byte(`{"size":7}`),
		VMs: func() (names []string) {
			locked(func() { names = slices.Collect(maps.Values(s.vms)) })
			return names
		},
		Lose:    func() { locked(func() { s.lose = true }) },
		Refuse:  func(fault string) { locked(func() { s.refuse = fault }) },
		Advance: func(d time.Duration) { locked(func() { s.passed += d }) },
		Second: func(name string) (id string) {
			locked(func() { id = s.add(cmp.Or(name, "x")) })
			return id
		},
		Refusals: map[string]cloud.Code{
			"ResourceExhausted": cloud.Exhausted, "InvalidArgument": cloud.Invalid, "OutOfRange": cloud.Invalid,
			"PermissionDenied": cloud.Denied, "Unauthenticated": cloud.Denied, "Internal": cloud.Unknown,
			"Unavailable": cloud.Unavailable, "DeadlineExceeded": cloud.Unavailable,
		},
	}
}
