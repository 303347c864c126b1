package vsphere

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// faultCodes is the error table: what a fault of vCenter asks for. Faults that
// it does not know are Unknown.
func faultCodes() map[string]cloud.Code {
	return map[string]cloud.Code{
		// Nothing left to run on, or to store on.
		"InsufficientResourcesFault": cloud.Exhausted, "InsufficientCpuResourcesFault": cloud.Exhausted,
		"InsufficientMemoryResourcesFault": cloud.Exhausted, "InsufficientHostCapacityFault": cloud.Exhausted,
		"InsufficientHostCpuCapacityFault": cloud.Exhausted, "InsufficientHostMemoryCapacityFault": cloud.Exhausted,
		"InsufficientFailoverResourcesFault": cloud.Exhausted, "InsufficientAgentVmsDeployed": cloud.Exhausted,
		"InsufficientPerCpuCapacity": cloud.Exhausted, "InsufficientStandbyResource": cloud.Exhausted,
		"InsufficientStandbyCpuResource": cloud.Exhausted, "InsufficientStandbyMemoryResource": cloud.Exhausted,
		"InsufficientStorageSpace": cloud.Exhausted, "InsufficientStorageIops": cloud.Exhausted,
		"InsufficientDisks":                  cloud.Exhausted,
		"InsufficientGraphicsResourcesFault": cloud.Exhausted, "InsufficientNetworkCapacity": cloud.Exhausted,
		"InsufficientNetworkResourcePoolCapacity": cloud.Exhausted, "InsufficientVFlashResourcesFault": cloud.Exhausted,
		"NumVirtualCpusExceedsLimit": cloud.Exhausted, "NoDiskSpace": cloud.Exhausted, "NoCompatibleHost": cloud.Exhausted,
		"NoCompatibleDatastore": cloud.Exhausted, "NoHost": cloud.Exhausted, "NotEnoughCpus": cloud.Exhausted,
		"NotEnoughLicenses":            cloud.Exhausted,
		"NoHostSuitableForFtSecondary": cloud.Exhausted, "StorageDrsCannotMoveVmInUserFolder": cloud.Exhausted,
		"InUseFeatureManipulationDisallowed": cloud.Exhausted, "VmLimitLicense": cloud.Exhausted,
		"LicenseExpired": cloud.Exhausted,
		// Who calls.
		"InvalidLogin": cloud.Denied, "NotAuthenticated": cloud.Denied, "NoPermission": cloud.Denied,
		"NoClientCertificate": cloud.Denied,
		"PasswordExpired":     cloud.Denied, "InvalidLocale": cloud.Denied, "RestrictedVersion": cloud.Denied,
		"SecurityError": cloud.Denied,
		// Something else is going on, or a host is away.
		"TaskInProgress": cloud.Unavailable, "ConcurrentAccess": cloud.Unavailable, "InvalidState": cloud.Unavailable,
		"InvalidPowerState": cloud.Unavailable, "InvalidHostState": cloud.Unavailable,
		"InvalidDatastoreState": cloud.Unavailable,
		"ResourceInUse":         cloud.Unavailable, "FileLocked": cloud.Unavailable, "HostCommunication": cloud.Unavailable,
		"HostNotConnected": cloud.Unavailable, "HostNotReachable": cloud.Unavailable, "HostConnectFault": cloud.Unavailable,
		"HostConfigFault": cloud.Unavailable, "CannotAccessVmComponent": cloud.Unavailable,
		"CannotAccessFile": cloud.Unavailable,
		"Timedout":         cloud.Unavailable, "SystemError": cloud.Unavailable, "RequestCanceled": cloud.Unavailable,
		"InaccessibleDatastore": cloud.Unavailable, "DatastoreNotWritableOnHost": cloud.Unavailable,
		"NetworkDisruptedAndConfigRolledBack": cloud.Unavailable,
		"ManagedObjectNotFound":               cloud.Unavailable, "DuplicateName": cloud.Unavailable,
		"FileAlreadyExists": cloud.Unavailable,
		"AlreadyExists":     cloud.Unavailable,
		// What the class says is wrong.
		"InvalidArgument": cloud.Invalid, "InvalidVmConfig": cloud.Invalid, "InvalidDeviceSpec": cloud.Invalid,
		"InvalidDeviceBacking": cloud.Invalid, "InvalidDeviceOperation": cloud.Invalid, "InvalidController": cloud.Invalid,
		"InvalidName": cloud.Invalid, "InvalidFolder": cloud.Invalid, "InvalidDatastore": cloud.Invalid,
		"InvalidDatastorePath": cloud.Invalid,
		"InvalidProperty":      cloud.Invalid, "InvalidRequest": cloud.Invalid, "InvalidType": cloud.Invalid,
		"NotFound":     cloud.Invalid,
		"NotSupported": cloud.Invalid, "DeviceNotSupported": cloud.Invalid, "UnsupportedGuest": cloud.Invalid,
		"NetworkCopyFault":       cloud.Invalid,
		"MissingNetworkIpConfig": cloud.Invalid, "CustomizationFault": cloud.Invalid, "UncustomizableGuest": cloud.Invalid,
		"NicSettingMismatch": cloud.Invalid, "VAppConfigFault": cloud.Invalid, "VAppPropertyFault": cloud.Invalid,
		"VmConfigFault":  cloud.Invalid,
		"TooManyDevices": cloud.Invalid, "MemorySizeNotSupported": cloud.Invalid,
		"NotEnoughLogicalCpus": cloud.Invalid, "CpuIncompatible": cloud.Invalid,
	}
}

// fault returns what vCenter says is wrong, if err is a fault of a call.
func fault(err error) types.AnyType {
	for ; err != nil; err = errors.Unwrap(err) {
		switch {
		case soap.IsSoapFault(err):
			return soap.ToSoapFault(err).VimFault()
		case soap.IsVimFault(err):
			return soap.ToVimFault(err)
		}
		if t, ok := err.(taskError); ok { //nolint:errorlint // every link of the chain is looked at
			return t.fault
		}
	}
	return nil
}

// isFault reports whether err is a fault of type T.
func isFault[T any](err error) bool {
	switch fault(err).(type) {
	case T, *T:
		return true
	}
	return false
}

// faultName is the type of a fault, e.g. NoDiskSpace.
func faultName(f types.AnyType) string {
	t := reflect.TypeOf(f)
	if t == nil {
		return ""
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// fail returns err as an error of the contract. What is one already stays.
func fail(op string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*cloud.Error](err); ok {
		return e
	}
	if f := fault(err); f != nil {
		return failFault(op, f, messageOf(err))
	}
	if s, ok := errors.AsType[*statusError](err); ok {
		reason, code := "HTTP"+strconv.Itoa(s.status), statusCode(s.status)
		if known, ok := restCodes()[s.kind]; ok {
			reason, code = s.kind, known
		}
		e := cloud.Errorf(code, op, reason, "%w", err)
		e.RetryAfter = s.after
		return e
	}
	switch {
	case errors.Is(err, errRefused):
		return cloud.Errorf(cloud.Denied, op, "InvalidLogin", "%w", err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return cloud.Errorf(cloud.Unavailable, op, "GivenUp", "%w", err)
	case soap.IsSoapFault(err):
		return cloud.Errorf(cloud.Unknown, op, "Fault", "vCenter answered with an unnamed fault%s", colon(messageOf(err)))
	case soap.IsCertificateUntrusted(err), errors.Is(err, errThumbprint):
		return cloud.Errorf(cloud.Unavailable, op, "CertificateUntrusted",
			"%w; put its authority into secret.%s or its thumbprint into secret.%s", err, caKey, thumbprintKey)
	}
	return cloud.Errorf(cloud.Unavailable, op, "NoAnswer", "%w", err)
}

// failFault returns a fault as an error of the contract: vCenter's name of it,
// what it is about and what vCenter says. Whoever wraps the account redacts what
// the message quotes of secrets and user data.
func failFault(op string, f types.AnyType, message string) *cloud.Error {
	name := faultName(f)
	code, known := faultCodes()[name]
	if base, ok := f.(types.BaseMethodFault); !known && ok {
		code = familyCode(base)
	}
	return cloud.Errorf(code, op, name, "vCenter answered %s%s%s", name, detail(f), colon(message))
}

// familyCode is the code of a fault that is not in the table and belongs to a
// family that is.
func familyCode(f types.BaseMethodFault) cloud.Code {
	switch f.(type) {
	case types.BaseInsufficientResourcesFault:
		return cloud.Exhausted
	case types.BaseNoPermission, types.BaseSecurityError:
		return cloud.Denied
	case types.BaseInvalidArgument, types.BaseInvalidVmConfig, types.BaseCustomizationFault:
		return cloud.Invalid
	case types.BaseInvalidState, types.BaseHostCommunication, types.BaseHostConfigFault, types.BaseTaskInProgress:
		return cloud.Unavailable
	}
	return cloud.Unknown
}

// detail names the property, object or permission that a fault is about.
func detail(f types.AnyType) string {
	f = pointerTo(f)
	switch x := f.(type) {
	case *types.NoPermission:
		return about(x.PrivilegeId, permissionObject(x))
	case *types.InvalidArgument:
		return about(x.InvalidProperty, "")
	case *types.InvalidVmConfig:
		return about(x.Property, "")
	case *types.InvalidDeviceSpec:
		return about(x.Property, "")
	case *types.NoDiskSpace:
		return about(x.Datastore, "")
	case *types.ManagedObjectNotFound:
		return about("", x.Obj.Value)
	}
	return ""
}

func permissionObject(f *types.NoPermission) string {
	if f.Object == nil {
		return ""
	}
	return f.Object.Value
}

func about(what, object string) string {
	switch {
	case what != "" && object != "":
		return " of " + what + " at " + object
	case what != "":
		return " of " + what
	case object != "":
		return " of " + object
	}
	return ""
}

// statusCode is what an answer asks for that is none of the API's.
func statusCode(status int) cloud.Code {
	switch {
	case status == http.StatusTooManyRequests:
		return cloud.Throttled
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return cloud.Denied
	case status >= http.StatusInternalServerError, status == http.StatusRequestTimeout:
		return cloud.Unavailable
	}
	return cloud.Unknown
}

// restErrors begins the names of the REST API's errors.
const restErrors = "com.vmware.vapi.std.errors."

// restCodes is the error table of the REST API.
func restCodes() map[string]cloud.Code {
	return map[string]cloud.Code{
		"unauthenticated": cloud.Denied, "unauthorized": cloud.Denied,
		"invalid_argument": cloud.Invalid, "not_found": cloud.Invalid, "unsupported": cloud.Invalid,
		"unable_to_allocate_resource": cloud.Exhausted,
		"already_exists":              cloud.Unavailable, "concurrent_change": cloud.Unavailable,
		"internal_server_error": cloud.Unavailable, "not_allowed_in_current_state": cloud.Unavailable,
		"resource_busy": cloud.Unavailable, "resource_inaccessible": cloud.Unavailable, "resource_in_use": cloud.Unavailable,
		"service_unavailable": cloud.Unavailable, "timed_out": cloud.Unavailable,
	}
}

// messageMax is how many bytes of vCenter's messages an error keeps.
const messageMax = 1000

// messageOf returns what vCenter says about the fault in err: the text of the call
// or task that failed, the messages of the fault, and those of its cause. It is
// empty when vCenter gives no text.
func messageOf(err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		if soap.IsSoapFault(err) {
			f := soap.ToSoapFault(err)
			return joined(append([]string{f.String}, messages(f.VimFault())...))
		}
		if soap.IsVimFault(err) {
			return joined(messages(soap.ToVimFault(err)))
		}
		if t, ok := err.(taskError); ok { //nolint:errorlint // every link of the chain is looked at
			return joined(append([]string{t.text}, messages(t.fault)...))
		}
	}
	return ""
}

// messages are the texts in a fault and in what caused it.
func messages(f types.AnyType) []string {
	base, ok := pointerTo(f).(types.BaseMethodFault)
	if !ok || reflect.ValueOf(base).IsNil() {
		return nil
	}
	var all []string
	fault := base.GetMethodFault()
	for _, m := range fault.FaultMessage {
		all = append(all, m.Message)
	}
	if cause := fault.FaultCause; cause != nil {
		all = append(all, cause.LocalizedMessage)
		all = append(all, messages(cause.Fault)...)
	}
	return all
}

// joined returns the texts in one line, each once.
func joined(texts []string) string {
	var kept []string
	for _, text := range texts {
		text = strings.TrimRight(strings.Join(strings.Fields(text), " "), ". ")
		if text != "" && !slices.Contains(kept, text) {
			kept = append(kept, text)
		}
	}
	line := strings.Join(kept, "; ")
	if len(line) > messageMax {
		line = strings.ToValidUTF8(line[:messageMax], "") + "…"
	}
	return line
}

// colon puts a message behind a text; an empty one adds nothing.
func colon(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

// pointerTo returns a fault as a pointer: the fault of a call is a value, that of a
// task is a pointer already.
func pointerTo(f types.AnyType) types.AnyType {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Struct {
		return f
	}
	pointer := reflect.New(v.Type())
	pointer.Elem().Set(v)
	return pointer.Interface()
}
