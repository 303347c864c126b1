package vm

import (
	"errors"
	"fmt"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// CheckStaticAddresses returns an error of code Invalid if the cloud of a class cannot
// give VMs static addresses.
func CheckStaticAddresses(r class.Resolved) error {
	if r.Driver == nil || r.Driver.Traits().StaticAddresses {
		return nil // an unknown provider is a problem of the class
	}
	const field = "spec.network"
	message := fmt.Sprintf("MachineClass %s is of provider %s, which does not support static addresses; remove the field "+
		"from the MCMMachineTemplate, or name a class of another provider", r.Class.Name, r.Driver.Traits().Name)
	return &cloud.Error{
		Code: cloud.Invalid, Op: "create VM", Reason: infrav1.ReasonNoStaticAddresses,
		Problems: []cloud.Problem{{Severity: cloud.BlocksCreate, Field: field, Message: message}},
		Err:      errors.New(field + ": " + message),
	}
}
