package vsphere

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// faults is the error table: what a fault of vCenter, or an error of its REST API, in
// lower case, asks for. Those that it does not know are Unknown.
func faults() driverkit.Table {
	return driverkit.Table{
		{Means: cloud.Exhausted, Codes: []string{ // nothing is left to run on, or to store on
			"InsufficientResourcesFault", "InsufficientCpuResourcesFault", "InsufficientMemoryResourcesFault",
			"InsufficientHostCapacityFault", "InsufficientHostCpuCapacityFault", "InsufficientHostMemoryCapacityFault",
			"InsufficientFailoverResourcesFault", "InsufficientAgentVmsDeployed", "InsufficientPerCpuCapacity",
			"InsufficientStandbyResource", "InsufficientStandbyCpuResource", "InsufficientStandbyMemoryResource",
			"InsufficientStorageSpace", "InsufficientStorageIops", "InsufficientDisks", "InsufficientGraphicsResourcesFault",
			"InsufficientNetworkCapacity", "InsufficientNetworkResourcePoolCapacity", "InsufficientVFlashResourcesFault",
			"NumVirtualCpusExceedsLimit", "NoDiskSpace", "NoCompatibleHost", "NoCompatibleDatastore", "NoHost",
			"NotEnoughCpus", "NotEnoughLicenses", "NoHostSuitableForFtSecondary", "StorageDrsCannotMoveVmInUserFolder",
			"InUseFeatureManipulationDisallowed", "VmLimitLicense", "unable_to_allocate_resource",
		}},
		{Means: cloud.Denied, Codes: []string{ // the caller may not do this, or a person has to do something first
			"QuestionPending", "LicenseExpired",
			"InvalidLogin", "NotAuthenticated", "NoPermission", "NoClientCertificate", "PasswordExpired", "InvalidLocale",
			"RestrictedVersion", "SecurityError", "unauthenticated", "unauthorized",
		}},
		{Means: cloud.Unavailable, Codes: []string{ // something else is going on, or a host is away
			"MethodDisabled", "TooManyConcurrentNativeClones", // a backup or another clone is at work
			"TaskInProgress", "ConcurrentAccess", "InvalidState", "InvalidPowerState", "InvalidHostState",
			"InvalidDatastoreState", "ResourceInUse", "FileLocked", "HostCommunication", "HostNotConnected",
			"HostNotReachable", "HostConnectFault", "HostConfigFault", "CannotAccessVmComponent", "CannotAccessFile",
			"Timedout", "SystemError", "RequestCanceled", "InaccessibleDatastore", "DatastoreNotWritableOnHost",
			"NetworkDisruptedAndConfigRolledBack", "ManagedObjectNotFound", "DuplicateName", "FileAlreadyExists",
			"AlreadyExists", "already_exists", "concurrent_change", "internal_server_error", "not_allowed_in_current_state",
			"resource_busy", "resource_inaccessible", "resource_in_use", "service_unavailable", "timed_out",
		}},
		{Means: cloud.Invalid, Codes: []string{ // the class is wrong
			"InvalidArgument", "InvalidVmConfig", "InvalidDeviceSpec", "InvalidDeviceBacking", "InvalidDeviceOperation",
			"InvalidController", "InvalidName", "InvalidFolder", "InvalidDatastore", "InvalidDatastorePath",
			"InvalidProperty", "InvalidRequest", "InvalidType", "NotFound", "NotSupported", "DeviceNotSupported",
			"UnsupportedGuest", "NetworkCopyFault", "MissingNetworkIpConfig", "CustomizationFault", "UncustomizableGuest",
			"NicSettingMismatch", "VAppConfigFault", "VAppPropertyFault", "VmConfigFault", "TooManyDevices",
			"MemorySizeNotSupported", "NotEnoughLogicalCpus", "CpuIncompatible", "invalid_argument", "not_found",
			"unsupported",
		}},
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
		code := faults().Row(driverkit.Answer{Status: s.status, Code: s.kind}).Means
		e := cloud.Errorf(code, op, cmp.Or(s.kind, "HTTP"+strconv.Itoa(s.status)), "%w", err)
		e.RetryAfter = s.after
		return e
	}
	switch {
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
	code := faults().Row(driverkit.Answer{Code: name}).Means
	if base, ok := pointerTo(f).(types.BaseMethodFault); code == cloud.Unknown && ok {
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
	case *types.QuestionPending:
		return about(strconv.Quote(x.Text), "")
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

// restErrors begins the names of the REST API's errors.
const restErrors = "com.vmware.vapi.std.errors."

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
