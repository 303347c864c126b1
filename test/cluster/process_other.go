//go:build unix && !linux

package cluster

import "syscall"

// attributes cannot ask the kernel here to end a program with its parent: Stop
// has to be called.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// stands believes the signal: there is no way to look here.
func (p *process) stands() bool { return true }
