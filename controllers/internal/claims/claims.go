// Package claims finds the objects of both APIs that have an owner id, or name a VM.
package claims

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/live"
)

// Claims are who has which owner id, as the API server shows it.
type Claims struct {
	Live      client.Reader // reads from the API server
	Namespace string        // empty is all
}

// Other returns "<Kind> <namespace>/<name>" of an object beside self that has the owner id, as an
// annotation or as its UID, or whose providerID is one of these; empty if there is none. It lists all
// Machines and MCMMachines from the API server; a kind that is not served has none.
func (c Claims) Other(ctx context.Context, self client.Object, ownerID string, providerIDs ...string) (string, error) {
	found := ""
	see := func(kind string, o client.Object, providerID string) {
		if o.GetUID() == self.GetUID() {
			return
		}
		has := machinev1.OwnerID(o) == ownerID || string(o.GetUID()) == ownerID
		for _, id := range providerIDs {
			has = has || id != "" && id == providerID
		}
		if has {
			found = kind + " " + o.GetNamespace() + "/" + o.GetName()
		}
	}
	in := client.InNamespace(c.Namespace)
	err := live.Pages(ctx, c.Live, func(page *machinev1.MachineList) {
		for i := range page.Items {
			see(machinev1.MachineKind, &page.Items[i], page.Items[i].Spec.ProviderID)
		}
	}, in)
	if err == nil || unserved(err) {
		err = live.Pages(ctx, c.Live, func(page *infrav1.MCMMachineList) {
			for i := range page.Items {
				see("MCMMachine", &page.Items[i], page.Items[i].Spec.ProviderID)
			}
		}, in)
	}
	if err != nil && !unserved(err) {
		return "", fmt.Errorf("look for other owners of id %s on the API server: %w", ownerID, err)
	}
	return found, nil
}

// unserved reports whether a kind is not one of this API server, or of this process.
func unserved(err error) bool { return meta.IsNoMatchError(err) || runtime.IsNotRegisteredError(err) }
