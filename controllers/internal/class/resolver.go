// Package class turns the name of a MachineClass into what the engine needs:
// the driver, the parsed spec, the credentials and, on demand, the account.
package class

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Resolver resolves MachineClasses. It keeps no state of its own and is safe
// for concurrent use.
type Resolver struct {
	clouds *cloud.Registry
}

// New returns a Resolver that finds drivers and accounts in clouds.
func New(clouds *cloud.Registry) *Resolver {
	return &Resolver{clouds: clouds}
}

// Resolved is a MachineClass with all that belongs to it. What is wrong with it
// stands in Problems; the rest is filled as far as it is known.
type Resolved struct {
	// Object is the class as the reader shows it; nil if there is none.
	Object *machinev1.MachineClass
	// Driver of the class's cloud; nil if the class or its provider is unknown.
	Driver cloud.Driver
	// Class is the parsed spec; zero without a Driver.
	Class cloud.Class
	// Problems are all that is wrong, the worst first. Err tells what they rule out.
	Problems []cloud.Problem
	// Credentials are the entries of secretRef's Secret, overlaid by those of
	// credentialsSecretRef's. They include the user data, and nothing else if the two may
	// not be used together. Never nil.
	Credentials cloud.Credentials
	// Alternatives are the class with one Secret's login each, where the two may not be used
	// together. None of them is known to be that of a VM of the class: only what a cloud shows
	// through one counts, not what it does not show. They have no Alternatives of their own.
	Alternatives []Resolved
	// Protected is set once the class has the finalizer that keeps it while native
	// machines use it. A VM that is made before may lose its class.
	Protected bool
	// SecretsFound is false if a Secret that the class names does not exist.
	SecretsFound bool
	// Account returns the account of the class, opened if need be, or why there
	// can be none: Err(cloud.BlocksAll). Never nil.
	Account func(ctx context.Context) (cloud.Account, error)

	name       string
	reasons    []string // of Problems, one each
	parts      []part
	clusterAPI bool   // the rules of Cluster API hold
	from       string // of Alternatives: whose login it is
	merged     bool   // of Alternatives: it is that of both Secrets
}

// Resolve reads the class and its Secrets from c and checks them. A class or
// Secret that does not exist is a Problem; an error means that reading failed,
// and is worth a retry.
func (r *Resolver) Resolve(ctx context.Context, c client.Reader, namespace, name string) (Resolved, error) {
	return r.resolve(ctx, c, namespace, name, false)
}

func (r *Resolver) resolve(ctx context.Context, c client.Reader, namespace, name string, clusterAPI bool) (Resolved,
	error,
) {
	object := &machinev1.MachineClass{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	switch {
	case name == "" || apierrors.IsNotFound(err):
		return r.missing(namespace, name), nil
	case err != nil:
		return Resolved{}, fmt.Errorf("read MachineClass %s/%s: %w", namespace, name, err)
	}
	return r.resolveObject(ctx, c, object, clusterAPI)
}

// ResolveObject is Resolve for a class that has been read already. The object
// is kept, not modified.
func (r *Resolver) ResolveObject(ctx context.Context, c client.Reader, object *machinev1.MachineClass) (Resolved,
	error,
) {
	return r.resolveObject(ctx, c, object, false)
}

func (r *Resolver) resolveObject(ctx context.Context, c client.Reader, object *machinev1.MachineClass,
	clusterAPI bool,
) (Resolved, error) {
	parts, gone, err := readSecrets(ctx, c, object)
	if err != nil {
		return Resolved{}, err
	}
	out := Resolved{
		Object: object, Credentials: merge(parts), SecretsFound: len(gone) == 0, name: object.Name,
		Protected: slices.Contains(object.Finalizers, machinev1.Finalizer), parts: parts, clusterAPI: clusterAPI,
	}

	var found findings
	if !object.DeletionTimestamp.IsZero() {
		found.add(machinev1.ReasonClassDeleting, deleting(object.Name))
	}
	found.add(machinev1.ReasonInvalidSpec, checkNodeTemplate(object.NodeTemplate)...)
	found.merge(r.resolveDriver(&out, gone))
	out.Problems, out.reasons = found.sorted()
	out.Account = r.account(out)
	return out, nil
}

// resolveDriver finds the driver and lets it judge spec and Secrets. gone are
// the Secrets that the class names and that do not exist.
func (r *Resolver) resolveDriver(out *Resolved, gone []cloud.Problem) findings {
	var found findings
	driver, err := r.clouds.Driver(out.Object.Provider)
	if err != nil {
		found.add(machinev1.ReasonSecretNotFound, gone...)
		found.add(machinev1.ReasonInvalidSpec, problemsOf(err)...)
		return found
	}
	var problems []cloud.Problem
	out.Driver = driver
	out.Class, problems = driver.Parse(cloud.ClassInput{
		Name: out.Object.Name, Namespace: out.Object.Namespace, Spec: out.Object.ProviderSpec.Raw,
		Labels: out.Object.Labels, Annotations: out.Object.Annotations,
	})
	found.merge(r.judgeLogin(out, gone, problems))
	found.add(machinev1.ReasonInvalidSpec, problems...)
	return found
}

func (r *Resolver) account(of Resolved) func(context.Context) (cloud.Account, error) {
	return func(ctx context.Context) (cloud.Account, error) {
		if err := of.Err(cloud.BlocksAll); err != nil {
			return nil, err
		}
		return r.clouds.Account(ctx, of.Driver, of.Class, of.Credentials)
	}
}

func (r *Resolver) missing(namespace, name string) Resolved {
	out := Resolved{
		Credentials: cloud.Credentials{}, SecretsFound: true, name: name,
		Problems: []cloud.Problem{{
			Severity: cloud.BlocksAll, Field: "spec.class.name",
			Message: fmt.Sprintf("there is no MachineClass %q in namespace %q; create it or name another one", name, namespace),
		}},
		reasons: []string{machinev1.ReasonClassNotFound},
	}
	out.Account = r.account(out)
	return out
}
