package kubevirt

import (
	"context"
	"net/http"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Scope is the infrastructure cluster, by the UID of its namespace kube-system, and the namespace of the
// VMs. A kubeconfig that may not read kube-system has a vague one: the URL of the API server stands for the
// cluster then, and another URL proves to be of it by showing a VM. It is asked once for the life of the
// account.
func (a *account) Scope(ctx context.Context, _ cloud.Class) (string, error) {
	const op = "name the cluster"
	return a.scope.Get(ctx, op, struct{}{}, func(ctx context.Context) (string, error) {
		var system struct {
			Metadata meta `json:"metadata"`
		}
		e := a.client.do(ctx, op, driverkit.Call{
			Method: http.MethodGet, URL: coreAPI + "/namespaces/kube-system", Out: &system,
		})
		within := ", namespace " + a.client.namespace
		switch {
		case e == nil && system.Metadata.UID != "":
			return "cluster " + system.Metadata.UID + within, nil
		case e == nil, e.Code == cloud.Denied, e.Code == cloud.NotFound:
			return cloud.VagueScope("the cluster at " + a.client.server + within), nil
		}
		return "", driverkit.Restrict(e)
	})
}
