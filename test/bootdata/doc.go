// Package bootdata has Ignition's own parser judge the boot data of package userdata. The tests of that
// package have cloud-init, ShellCheck and systemd judge the rest, where they are installed;
// packages lists what .ci/run installs for that.
package bootdata
