package class

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// Check is what the controllers find wrong with a class, without a request to a cloud.
type Check struct {
	// Spec is what is wrong with the class itself.
	Spec []cloud.Problem
	// Secrets is what is wrong with the Secrets that it names. If Gone has any, entries may be
	// missing because of that.
	Secrets []cloud.Problem
	// BootData is that no Secret has the boot data, which machines of Cluster API have elsewhere.
	BootData []cloud.Problem
	// Gone are Secrets that do not exist.
	Gone []cloud.Problem
}

// CheckObject judges a class and its Secrets, which it reads from c, as the native API uses them.
func CheckObject(ctx context.Context, clouds *cloud.Registry, c client.Reader, object *machinev1.MachineClass,
) (Check, error) {
	resolved, err := class.New(clouds).ResolveObject(ctx, c, object)
	if err != nil {
		return Check{}, err
	}
	return checkOf(resolved), nil
}

// CheckForClusterAPI is CheckObject by the rules of the Cluster API kinds: a Secret of another
// namespace has to allow that of the class.
func CheckForClusterAPI(ctx context.Context, clouds *cloud.Registry, c client.Reader, object *machinev1.MachineClass,
) (Check, error) {
	resolved, err := class.New(clouds).ResolveForClusterAPI(ctx, c, object.Namespace, object.Name)
	if err != nil {
		return Check{}, err
	}
	return checkOf(resolved), nil
}

func checkOf(resolved class.Resolved) Check {
	var out Check
	for reason, p := range resolved.Reasoned() {
		switch reason {
		case machinev1.ReasonSecretNotFound:
			out.Gone = append(out.Gone, p)
		case machinev1.ReasonInvalidSecret, infrav1.ReasonSecretNotAllowed:
			out.Secrets = append(out.Secrets, p)
		default:
			out.Spec = append(out.Spec, p)
		}
	}
	_, err := resolved.UserData()
	if lacking, ok := errors.AsType[*cloud.Error](err); ok {
		out.BootData = lacking.Problems
	}
	return out
}
