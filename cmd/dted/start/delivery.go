package start

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine/mail"
	"dtegate/engine/outbox"
	"dtegate/engine/pdf"
)

// Delivery is how documents reach their receivers and the archive. The printer is always there; mail and archive when the
// configuration has them. Nothing is connected to.
func Delivery(c *config.Config, catalogue func(catalogue, code string) (string, bool)) (d outbox.Delivery, err error) {
	var faults []error
	d.Printer, err = printer(c, catalogue)
	faults = append(faults, err)
	if m := c.Mail; m != nil {
		d.Mail, err = mailer(m, &c.Issuer)
		faults = append(faults, err)
		_, d.Domain, _ = strings.Cut(m.From, "@")
		d.Look = mail.Look{Trade: c.Issuer.TradeName, Color: c.Issuer.PrimaryColour, Greeting: m.Greeting}
		d.Contingency, d.GiveUpAfter = m.Contingency, time.Duration(m.GiveUpAfter)
	}
	if a := c.Archive; a != nil {
		d.Archive, err = a.Open()
		faults = append(faults, err)
	}
	return d, errors.Join(faults...)
}

// printSettings names the settings in what pdf.New says of a style.
var printSettings = strings.NewReplacer("pdf: Style.Color", "issuer.color_principal", "pdf: Style.Logo", "print.logo")

func printer(c *config.Config, catalogue func(catalogue, code string) (string, bool)) (p *pdf.Printer, err error) {
	style := pdf.Style{Color: c.Issuer.PrimaryColour, Footer: c.Print.Footer}
	if c.Print.Logo != "" {
		if style.Logo, err = os.ReadFile(c.Print.Logo); err != nil {
			return nil, fmt.Errorf("print.logo: %w", err)
		}
	}
	if p, err = pdf.New(pdf.Options{Catalogue: catalogue, Style: style}); err != nil {
		return nil, errors.New(printSettings.Replace(err.Error()))
	}
	return p, nil
}

// mailSettings are the settings behind the options of mail.New.
var mailSettings = map[string]string{"Host": "mail.host", "Port": "mail.port", "Security": "mail.security", "Hello": "mail.from", "From": "mail.from",
	"FromName": "issuer.nombre", "ReplyTo": "mail.reply_to"}

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
	s, err := mail.New(o)
	var field *mail.FieldError
	if errors.As(err, &field) && mailSettings[field.Field] != "" { // else mail.New has a check that this table does not know
		return nil, fmt.Errorf("%s: %s", mailSettings[field.Field], field.Text)
	}
	return s, err
}
