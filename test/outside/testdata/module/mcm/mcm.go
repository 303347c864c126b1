// Package mcm has the types that drivers of Machine Controller Manager (MCM) are written
// against, in the shape of its module: its driver.Driver with requests and responses, its
// Machine and MachineClass as far as drivers read them, and its errors.
package mcm

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Machine is a Machine.
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec MachineSpec `json:"spec,omitempty"`
}

// MachineSpec is the spec of a Machine.
type MachineSpec struct {
	Class            ClassSpec        `json:"class,omitempty"`
	ProviderID       string           `json:"providerID,omitempty"`
	NodeTemplateSpec NodeTemplateSpec `json:"nodeTemplate,omitempty"`
}

// ClassSpec names a class.
type ClassSpec struct {
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
}

// NodeTemplateSpec is what the node shall have.
type NodeTemplateSpec struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// MachineClass is a MachineClass.
type MachineClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	ProviderSpec runtime.RawExtension `json:"providerSpec"`
	Provider     string               `json:"provider,omitempty"`
}

// The requests and responses of the driver.
type (
	CreateMachineRequest struct {
		Machine      *Machine
		MachineClass *MachineClass
		Secret       *corev1.Secret
	}
	CreateMachineResponse struct {
		ProviderID, NodeName, LastKnownState string
		Addresses                            []corev1.NodeAddress
	}
	InitializeMachineRequest struct {
		Machine      *Machine
		MachineClass *MachineClass
		Secret       *corev1.Secret
	}
	InitializeMachineResponse struct{ ProviderID, NodeName string }
	DeleteMachineRequest      struct {
		Machine      *Machine
		MachineClass *MachineClass
		Secret       *corev1.Secret
	}
	DeleteMachineResponse   struct{ LastKnownState string }
	GetMachineStatusRequest struct {
		Machine      *Machine
		MachineClass *MachineClass
		Secret       *corev1.Secret
	}
	GetMachineStatusResponse struct {
		ProviderID, NodeName string
		Addresses            []corev1.NodeAddress
	}
	ListMachinesRequest struct {
		MachineClass *MachineClass
		Secret       *corev1.Secret
	}
	ListMachinesResponse struct{ MachineList map[string]string }
	GetVolumeIDsRequest  struct {
		PVSpecs []*corev1.PersistentVolumeSpec
	}
	GetVolumeIDsResponse struct{ VolumeIDs []string }
)

// Driver is what MCM asks of a cloud.
type Driver interface {
	CreateMachine(context.Context, *CreateMachineRequest) (*CreateMachineResponse, error)
	InitializeMachine(context.Context, *InitializeMachineRequest) (*InitializeMachineResponse, error)
	DeleteMachine(context.Context, *DeleteMachineRequest) (*DeleteMachineResponse, error)
	GetMachineStatus(context.Context, *GetMachineStatusRequest) (*GetMachineStatusResponse, error)
	ListMachines(context.Context, *ListMachinesRequest) (*ListMachinesResponse, error)
	GetVolumeIDs(context.Context, *GetVolumeIDsRequest) (*GetVolumeIDsResponse, error)
}

// Code is one of MCM's codes.
type Code uint32

// Some of the codes.
const (
	Internal          Code = 13
	InvalidArgument   Code = 3
	NotFound          Code = 5
	ResourceExhausted Code = 8
	Unimplemented     Code = 12
	Unavailable       Code = 14
	Unauthenticated   Code = 16
	Uninitialized     Code = 17
)

// String is the name of the code.
func (c Code) String() string {
	return map[Code]string{
		Internal: "Internal", InvalidArgument: "InvalidArgument", NotFound: "NotFound", ResourceExhausted: "ResourceExhausted",
		Unimplemented: "Unimplemented", Unavailable: "Unavailable", Unauthenticated: "Unauthenticated",
		Uninitialized: "Uninitialized",
	}[c]
}

// Status is the error of a driver.
type Status struct {
	code    Code
	message string
}

// Errorf returns an error of that code.
func Errorf(c Code, format string, args ...any) error {
	return &Status{c, fmt.Sprintf(format, args...)}
}

// Code is the code.
func (s *Status) Code() Code { return s.code }

// Error is the text that MCM reads the code from.
func (s *Status) Error() string {
	return fmt.Sprintf("machine codes error: code = [%s] message = [%s]", s.code, s.message)
}
