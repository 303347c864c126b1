package azure

import (
	"context"
	"errors"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// codeNoGroup is what Resource Manager answers for a resource group that the subscription does not have.
const codeNoGroup = "ResourceGroupNotFound"

// Scope is the subscription, whose id no other tenant has, and the resource group of the class, in which
// names are unique.
func (a *account) Scope(_ context.Context, c cloud.Class) (string, error) {
	s, err := driverkit.SpecOf[*spec]("name the subscription", c)
	if err != nil {
		return "", driverkit.Restrict(err)
	}
	return scopeOf(a.client.subscription, s.ResourceGroup), nil
}

func scopeOf(subscription, group string) string {
	return "subscription " + strings.ToLower(subscription) + ", resource group " + strings.ToLower(group)
}

// scopeIn is what the Node's form of a providerID names; empty for MCM's, which has only the location.
func scopeIn(providerID string) string {
	const subscription, group, whole = 1, 3, 5 // of subscriptions/<id>/resourceGroups/<group>/…
	path := strings.Split(strings.TrimPrefix(providerID, providerIDScheme+"/"), "/")
	if len(path) < whole || !strings.EqualFold(path[0], "subscriptions") {
		return ""
	}
	return scopeOf(path[subscription], path[group])
}

// vmFor returns the VM that r names, whosever it is. In a subscription or a group that is not the one of
// its providerID it would not exist, which is Denied. So is a group that is absent, unless it is known
// to be the machine's, in its subscription: then the VM has gone with it. Of a machine that knows of no VM
// there is nothing to lose.
func (a *account) vmFor(ctx context.Context, op string, s *spec, r cloud.Ref) (v virtualMachine, found bool,
	err error,
) {
	here, named := scopeOf(a.client.subscription, s.ResourceGroup), scopeIn(r.ProviderID)
	if named != "" && named != here {
		return v, false, cloud.WrongScope(op, named, here)
	}
	v, found, err = a.named(ctx, op, s, nameOf(r))
	if e, is := errors.AsType[*cloud.Error](err); !is || e.Reason != codeNoGroup {
		return v, found, err
	}
	if r.ProviderID != "" && named == "" && r.Scope != here {
		return v, false, cloud.Errorf(cloud.Denied, op, codeNoGroup, "subscription %s has no resource group %s, and nothing "+
			"records that the VM was there: give the class the credentials of the VM's subscription; if the group was "+
			"deleted, record it with the annotation %s=%q on the machine", a.client.subscription, s.ResourceGroup,
			cloud.ScopeRecord, here)
	}
	return v, false, nil
}
