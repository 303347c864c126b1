// Package userdata makes the boot data of a machine from a spec: cloud-config, or for Flatcar
// ignition, with which a plain image becomes a node of a cluster. The bootstrap token and the name of
// the machine are placeholders that the manager fills in. Equal specs give equal bytes.
//
// What a machine does is one script, which systemd runs at each boot and which looks before it acts:
// see scripts/setup.sh. The packages below render files and units in the format of each reader.
package userdata

// The manager replaces these in the user data of a MachineClass. They are those of
// api/machine/v1alpha1, which a test compares: this package stays free of what that one imports.
const (
	tokenPlaceholder   = "<<BOOTSTRAP_TOKEN>>" //nolint:gosec // a placeholder is no token
	machinePlaceholder = "<<MACHINE_NAME>>"
)
