package mcmdriver

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// The types of a driver of MCM's, as small as they may be.
type (
	object   struct{ Metadata struct{ Name string } }
	secret   struct{ Data map[string][]byte }
	request3 struct {
		Machine      *object
		MachineClass *json.RawMessage
		Secret       *secret
	}
	request2 struct {
		MachineClass *json.RawMessage
		Secret       *secret
	}
	volumesIn  struct{ PVSpecs []json.RawMessage }
	vm         struct{ ProviderID, NodeName string }
	list       struct{ MachineList map[string]string }
	volumesOut struct{ VolumeIDs []string }
)

// fake is a driver that knows neither the status of a VM nor contexts.
type fake struct {
	mu      sync.Mutex
	vms     map[string]string // name by providerID
	creates int
	takes   time.Duration // to create a VM
}

var errUnimplemented = errors.New("machine codes error: code = [Unimplemented] message = [no]")

func (f *fake) CreateMachine(_ context.Context, in *request3) (*vm, error) {
	time.Sleep(f.takes)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.creates++
	f.vms["fake:///r/1"] = in.Machine.Metadata.Name
	return &vm{"fake:///r/1", "node"}, nil
}

func (f *fake) InitializeMachine(context.Context, *request3) (*vm, error) {
	return nil, errUnimplemented
}

func (f *fake) DeleteMachine(context.Context, *request3) (*struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.vms)
	return &struct{}{}, nil
}

func (f *fake) GetMachineStatus(context.Context, *request3) (*vm, error) {
	return nil, errUnimplemented
}

func (f *fake) ListMachines(context.Context, *request2) (*list, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &list{map[string]string{"fake:///r/2": ""}}
	maps.Copy(out.MachineList, f.vms)
	return out, nil
}

func (f *fake) GetVolumeIDs(context.Context, *volumesIn) (*volumesOut, error) {
	return nil, errUnimplemented
}

func traits() Traits {
	return Traits{Cloud: cloud.Traits{Name: "fake", CreateKey: true}, ProviderIDPrefix: "fake:///"}
}

// TestSlowDriver: a create that outlives its caller makes one VM.
func TestSlowDriver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{vms: map[string]string{}, takes: 5 * time.Minute}
		d := Wrap(f, traits())
		class, problems := d.Parse(cloud.ClassInput{Name: "c", Namespace: "ns", Spec: []byte("{}")})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		a, err := d.Open(t.Context(), class, cloud.Credentials{})
		if err != nil {
			t.Fatal(err)
		}
		r := cloud.CreateRequest{
			Ref: cloud.Ref{Name: "m", Class: class}, Token: "t", UserData: []byte("x"),
			Checkpoint: func(context.Context, string) error { return nil },
		}
		start, made := time.Now(), cloud.VM{}
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			made, err = a.Create(ctx, r)
			cancel()
			if err == nil {
				break
			}
			if cloud.CodeOf(err) != cloud.Unavailable {
				t.Fatalf("create while the driver works: %v", err)
			}
		}
		if took := time.Since(start); err != nil || made.ID != "1" || f.creates != 1 || took > 6*time.Minute {
			t.Errorf("got %+v, %v after %v and %d requests, want one VM", made, err, took, f.creates)
		}
		for r, err := range a.List(t.Context(), class) {
			if err != nil || r.MachineName != "m" {
				t.Errorf("list yields %+v, %v, want the VM with a machine only", r, err)
			}
		}
		if d, err := a.Delete(t.Context(), r.Ref); err != nil || !d.Done {
			t.Errorf("delete: %+v, %v", d, err)
		}
	})
}

func TestTraits(t *testing.T) {
	t.Parallel()
	got := Wrap(&fake{}, traits()).Traits()
	if !got.Legacy || got.CreateKey || got.Settle != time.Minute {
		t.Errorf("traits %+v, want Legacy, no CreateKey and a settle time", got)
	}
}

// stranger asks for requests that are not MCM's.
type stranger struct{ fake }

func (*stranger) DeleteMachine(context.Context, *request2) (*struct{}, error) { return nil, nil } //nolint:nilnil // unused

func TestWrapPanics(t *testing.T) {
	t.Parallel()
	for want, wrap := range map[string]func(){
		"has no field Machine": func() { Wrap(&stranger{}, traits()) },
		"Cloud.Name":           func() { Wrap(&fake{}, Traits{ProviderIDPrefix: "x"}) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, want) {
					t.Errorf("panic %q, want %q", text, want)
				}
			}()
			wrap()
		}()
	}
}
