package machine

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

func TestAddressesAreSortedAndThereOnce(t *testing.T) {
	t.Parallel()
	got := addresses(&cloud.VM{NodeName: "n", Addresses: []cloud.Address{
		{Kind: "InternalIP", Value: "10.0.0.2"},
		{Kind: "ExternalIP", Value: "1.2.3.4"},
		{Kind: "InternalIP", Value: "10.0.0.1"},
		{Kind: "InternalIP", Value: "10.0.0.2"},
	}})
	want := []corev1.NodeAddress{
		{Type: "ExternalIP", Address: "1.2.3.4"},
		{Type: "Hostname", Address: "n"},
		{Type: "InternalIP", Address: "10.0.0.1"},
		{Type: "InternalIP", Address: "10.0.0.2"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("addresses() = %v, want %v: MCM sorts them", got, want)
	}
}
