package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Backup copies etcd's data to a new folder, as of one moment: etcd stands while they are
// copied, as for a snapshot of its volume.
func (c *Cluster) Backup(folder string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.etcd.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(10 * time.Second); !c.etcd.Suspended(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.Join(errors.New("etcd goes on although it was told to stop"), c.etcd.Signal(syscall.SIGCONT))
		}
	}
	if err := os.CopyFS(folder, os.DirFS(c.etcdFolder())); err != nil {
		return errors.Join(fmt.Errorf("back etcd up: %w", err), c.etcd.Signal(syscall.SIGCONT))
	}
	return c.etcd.Signal(syscall.SIGCONT)
}

// Restore ends the control plane, puts a backup in the place of etcd's data, and starts it
// again, with the same address and certificates. It returns when the API server serves
// requests. Revisions go back with the data, so whoever has a cache has to start again.
func (c *Cluster) Restore(ctx context.Context, folder string) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	c.mu.Lock()
	err := errors.Join(c.controllerManager.Kill(), c.apiServer.Kill(), c.etcd.Kill(), os.RemoveAll(c.etcdFolder()),
		os.CopyFS(c.etcdFolder(), os.DirFS(folder)))
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return err
	}
	if len(c.options.Controllers) == 0 {
		return nil
	}
	return c.startControllerManager(ctx)
}

func (c *Cluster) etcdFolder() string { return filepath.Join(c.dir, "etcd") }
