package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine"
	"dtegate/engine/mail"
	"dtegate/engine/pdf"
)

// delivery is how documents reach their receivers and the archive. The printer is always there; mail and archive when the
// configuration has them.
func delivery(c *config.Config, catalogue func(catalogue, code string) (string, bool)) (d engine.Delivery, err error) {
	style := pdf.Style{Color: c.Issuer.PrimaryColour, Footer: c.Print.Footer}
	if c.Print.Logo != "" {
		if style.Logo, err = os.ReadFile(c.Print.Logo); err != nil {
			return d, fmt.Errorf("reading print.logo: %w", err)
		}
	}
	if d.Printer, err = pdf.New(pdf.Options{Catalogue: catalogue, Style: style}); err != nil {
		return d, fmt.Errorf("preparing the printed version (print.logo, issuer.color_principal): %w", err)
	}
	if m := c.Mail; m != nil {
		if d.Mail, err = mailer(m, &c.Issuer); err != nil {
			return d, fmt.Errorf("[mail]: %w", err)
		}
		_, d.Domain, _ = strings.Cut(m.From, "@")
		d.Look = mail.Look{Trade: c.Issuer.TradeName, Color: c.Issuer.PrimaryColour, Greeting: m.Greeting}
		d.Contingency, d.GiveUpAfter = m.Contingency, time.Duration(m.GiveUpAfter)
	}
	if a := c.Archive; a != nil {
		if d.Archive, err = a.Open(); err != nil {
			return d, err
		}
	}
	return d, nil
}

func mailer(m *config.Mail, i *config.Issuer) (*mail.Sender, error) {
	reply := m.ReplyTo
	if reply == "" && mail.Mailable(i.Mail) {
		reply = i.Mail // who answers writes to the store and not to a mailbox that nobody reads
	}
	o := mail.Options{Host: m.Host, Port: m.Port, Security: mail.Security(m.Security), User: m.User, From: m.From,
		FromName: cmp.Or(i.TradeName, i.Name), ReplyTo: reply, Timeout: time.Duration(m.Timeout)}
	if m.User != "" {
		password, err := config.ReadSecret("mail.password_file", m.PasswordFile)
		if err != nil {
			return nil, err
		}
		o.Password = mail.Secret(password)
	}
	return mail.New(o)
}
