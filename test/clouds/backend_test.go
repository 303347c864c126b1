package clouds

import (
	"context"
	"testing"
)

// backends are the clouds. A new one is a line here and a file that starts it.
func backends() map[string]func(*testing.T) backend {
	return map[string]func(*testing.T) backend{
		"AWS":       startAWS,
		"Azure":     startAzure,
		"GCP":       startGCP,
		"Hetzner":   startHetzner,
		"kubevirt":  startKubeVirt,
		"OpenStack": startOpenStack,
		"vsphere":   startVSphere,
	}
}

// backend is a running cloud, as its owner sees it.
type backend interface {
	// Class returns a provider spec whose VMs have the tags of this test, and
	// what of nodeTemplate depends on it. Those of one generation are alike and
	// can be told from the others.
	Class(generation int) class
	// Credentials are the Secret's, without user data.
	Credentials() map[string][]byte
	// VMs returns the VMs that run.
	VMs(ctx context.Context) ([]vm, error)
	// Kill takes a VM away as somebody at the cloud's console would.
	Kill(ctx context.Context, id string) error
	// Ledger names everything that is there and was not at the start, of every
	// kind.
	Ledger(ctx context.Context) ([]string, error)
}

type class struct {
	Spec                       map[string]any
	InstanceType, Region, Zone string
}

// vm is a running VM.
type vm struct {
	ID         string
	Generation int // of its class
	UserData   []byte

	// What the cloud's controller manager and kubelet say of it.
	NodeName   string
	ProviderID string // on the Node
	MCM        string // the form that MCM writes
	Address    string
}
