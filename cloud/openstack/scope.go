package openstack

import (
	"context"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Scope is the id of the project that the token is for, which no other Keystone has, and the region.
func (a *account) Scope(ctx context.Context, _ cloud.Class) (string, error) {
	now, _, err := a.calls.Login.Get(ctx, opLogin)
	switch {
	case err != nil:
		return "", err
	case now.project == "":
		return "", cloud.Errorf(cloud.Unavailable, opLogin, "NoProject", "the token of Keystone is for no project")
	}
	return "project " + now.project + ", region " + a.region, nil
}

// inRegion fails if a providerID names another region: there is no such server in this one, which must not
// mean that it is gone.
func (a *account) inRegion(op, providerID string) error {
	rest := strings.TrimPrefix(providerID, providerIDScheme)
	region := strings.TrimPrefix(rest[:max(strings.LastIndexByte(rest, '/'), 0)], "/")
	if region == "" || region == a.region {
		return nil
	}
	return cloud.WrongScope(op, "region "+region, "region "+a.region)
}
