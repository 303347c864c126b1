package memory

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Provider is MachineClass.provider.
const Provider = "memory"

const (
	providerIDPrefix = "memory:///"
	ownerTag         = "owner"
	userDataMax      = 16 << 10
)

// NewDriver returns the driver, which speaks through transport; nil is the usual one.
func NewDriver(transport http.RoundTripper) cloud.Driver {
	return driver{&http.Client{Transport: transport}}
}

type driver struct{ http *http.Client }

var nameLimits = cloud.NameLimits{Max: 63}

func (driver) Traits() cloud.Traits {
	return cloud.Traits{
		Name: Provider, UserDataMax: userDataMax, Names: nameLimits, NodeNamed: true, CreateKey: true,
		Secret: cloud.SecretKeys{Credential: []string{"key"}},
	}
}

func (driver) Parse(in cloud.ClassInput) (cloud.Class, []cloud.Problem) {
	s, problems := ParseSpec(in.Spec)
	return cloud.Class{
		Name: in.Name, Namespace: in.Namespace, Endpoint: s.URL, Owner: s.Cluster + "/" + s.Role,
		Zone: s.Zone, InstanceType: s.Type, AnyZone: true, Spec: s,
	}, problems
}

func (driver) CheckSecret(_ cloud.Class, creds cloud.Credentials) []cloud.Problem {
	if len(creds["key"]) > 0 {
		return nil
	}
	return []cloud.Problem{{Severity: cloud.BlocksAll, Field: "key", Message: "is missing; add it"}}
}

func (driver) DecodeProviderID(providerID string) (string, bool) {
	if id, ok := strings.CutPrefix(providerID, providerIDPrefix); ok && id != "" {
		return id, true
	}
	return "", false
}

func (d driver) Open(_ context.Context, c cloud.Class, creds cloud.Credentials) (cloud.Account, error) {
	return account{d, Client{d.http, c.Endpoint, string(bytes.TrimSpace(creds["key"]))}}, nil
}

type account struct {
	driver driver
	client Client
}

func (a account) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	const op = "create VM"
	if err := cloud.Worst(op, r.Problems(nameLimits, userDataMax), cloud.BlocksCreate); err != nil {
		return cloud.VM{}, err
	}
	s := r.Class.Spec.(*Spec)
	tags := maps.Clone(r.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	tags["cluster"], tags["role"], tags[ownerTag] = s.Cluster, s.Role, r.OwnerID
	vm, err := a.client.Create(ctx, VM{
		Name: r.Name, Token: r.Token, Zone: cmp.Or(r.Zone, s.Zone), Type: s.Type, Tags: tags, UserData: r.UserData,
	})
	if err != nil {
		return cloud.VM{}, failedCreate(op, err)
	}
	return show(vm), nil
}

func (a account) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	const op = "get VM"
	found, err := a.find(ctx, r)
	switch {
	case err != nil:
		return cloud.VM{}, failed(op, err)
	case len(found) == 0:
		return cloud.VM{}, cloud.Errorf(cloud.NotFound, op, "NoSuchVM", "there is no VM of %s", r.Name)
	case len(found) > 1:
		return cloud.VM{}, cloud.Errorf(cloud.Unknown, op, "SeveralVMs", "%s and %s are of %s", found[0].ID, found[1].ID, r.Name)
	}
	return show(found[0]), nil
}

func (a account) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	found, err := a.find(ctx, r)
	for _, vm := range found {
		err = errors.Join(err, ignoreNotFound(a.client.Delete(ctx, vm.ID)))
	}
	if err != nil {
		return cloud.Deletion{}, failed("delete VM", err)
	}
	return cloud.Deletion{Done: true, Found: len(found) > 0}, nil
}

func (a account) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		if !cloud.Wants(kinds, cloud.KindVM) {
			return
		}
		all, err := a.client.List(ctx, c.Spec.(*Spec), "")
		if err != nil {
			yield(cloud.Resource{}, failed("list VMs", err))
			return
		}
		for _, t := range all {
			vm := show(t)
			if !yield(cloud.Resource{
				Kind: cloud.KindVM, ID: t.ID, MachineName: t.Name, OwnerID: vm.OwnerID, Created: t.Created, VM: &vm, Tags: t.Tags,
			}, nil) {
				return
			}
		}
	}
}

func (account) Capacity(_ context.Context, c cloud.Class) (cloud.Capacity, error) {
	if c.InstanceType != "small" {
		return cloud.Capacity{}, cloud.Errorf(cloud.Invalid, "get capacity", "UnknownType", "there is no type %q", c.InstanceType)
	}
	return cloud.Capacity{Resources: map[string]string{"cpu": "2", "memory": "4Gi"}, Architecture: "amd64"}, nil
}

// find returns the VMs that were made for r, by providerID or by name.
func (a account) find(ctx context.Context, r cloud.Ref) ([]VM, error) {
	s := r.Class.Spec.(*Spec)
	var all []VM
	var err error
	if r.ProviderID != "" {
		id, _ := a.driver.DecodeProviderID(r.ProviderID)
		var vm VM
		if vm, err = a.client.Show(ctx, id); err == nil {
			all = append(all, vm)
		}
	} else {
		all, err = a.client.List(ctx, s, r.Name)
	}
	if err != nil {
		return nil, ignoreNotFound(err)
	}
	var found []VM
	for _, vm := range all {
		owner := vm.Tags[ownerTag]
		if vm.Tags["cluster"] == s.Cluster && vm.Tags["role"] == s.Role &&
			(r.OwnerID == "" || owner == r.OwnerID || owner == "" && vm.Name == r.Name) {
			found = append(found, vm)
		}
	}
	return found, nil
}

func ignoreNotFound(err error) error {
	if e, ok := errors.AsType[*APIError](err); ok && e.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// show is vm in the words of the contract.
func show(vm VM) cloud.VM {
	states := map[string]cloud.State{"running": cloud.StateRunning, "stopped": cloud.StateStopped, "failed": cloud.StateFailed}
	return cloud.VM{
		ID: vm.ID, ProviderID: providerIDPrefix + vm.ID, NodeProviderID: providerIDPrefix + vm.ID, Name: vm.Name,
		OwnerID: vm.Tags[ownerTag], NodeName: vm.Name, State: states[vm.State], Reason: vm.State,
		Zone: vm.Zone, InstanceType: vm.Type, Created: vm.Created,
		Addresses: []cloud.Address{{Kind: "InternalIP", Value: "10.0.0.1"}},
	}
}

// failed is err with the code of what can be done about it.
func failed(op string, err error) error {
	e, ok := errors.AsType[*APIError](err)
	if !ok {
		return cloud.Errorf(cloud.Unknown, op, "Unknown", "%w", err)
	}
	out := cloud.Errorf(cloud.Unknown, op, cmp.Or(e.Code, "NoAnswer"), "%w", err)
	out.RetryAfter = e.RetryAfter
	switch {
	case e.Status == 0 || e.Status >= http.StatusInternalServerError:
		out.Code = cloud.Unavailable
	case e.Status == http.StatusUnauthorized:
		out.Code = cloud.Denied
	case e.Status == http.StatusTooManyRequests:
		out.Code = cloud.Throttled
	}
	return out
}

// failedCreate is failed for the request for a VM, which also may be wrong, or too much.
func failedCreate(op string, err error) error {
	out := failed(op, err)
	e, answered := errors.AsType[*APIError](err)
	wrapped, _ := errors.AsType[*cloud.Error](out)
	switch {
	case !answered:
	case e.Status == http.StatusConflict:
		wrapped.Code = cloud.Exhausted
	case e.Status == http.StatusBadRequest:
		wrapped.Code = cloud.Invalid
	}
	return out
}
