// The browser's half of pictures.py: works the page as a person would and takes the pictures.
// One JSON object on stdin: { url, chromium, workspace, prompt, tool, command, title, model, out }.
import { text } from 'node:stream/consumers'
import { join } from 'node:path'
import { chromium } from 'playwright-core'

const BOUND = 60_000
const SIZE = { width: 1280, height: 800 }
const QUIET = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']

const job = JSON.parse(await text(process.stdin))
const browser = await chromium.launch({ executablePath: job.chromium, args: QUIET })
try {
  const page = await browser.newPage({ viewport: SIZE, colorScheme: 'light', locale: 'en-US', reducedMotion: 'reduce' })
  page.setDefaultTimeout(BOUND)
  await page.goto(job.url)
  await page.getByRole('dialog', { name: 'Preview Notice' }).getByRole('button', { name: 'Continue' }).click()
  await page.getByRole('dialog').waitFor({ state: 'hidden' })
  await chat(page)
  await models(page)
  await settings(page)
} finally {
  await browser.close()
}

/** A fresh chat in the workspace: the question is typed, the answer awaited, the steps opened. */
async function chat(page) {
  await page.getByRole('button', { name: 'Choose workspace' }).click()
  await page.getByRole('menuitem', { name: job.workspace }).click()
  const input = page.getByRole('textbox', { name: /Describe what you want/ })
  await input.click()
  await input.pressSequentially(job.prompt)
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: /^Completed in/ }).click()
  await page.getByRole('treeitem', { name: job.title }).waitFor()
  await page.getByRole('button', { name: 'Ran commands' }).click()
  await page.getByRole('button', { name: job.tool }).click()
  await page.getByText(job.command).waitFor()
  await picture(page, 'dsh-chat')
}

/** The model picker with the agent's own catalogue. */
async function models(page) {
  await page.getByRole('button', { name: /^Select model/ }).click()
  await page.getByRole('menuitem', { name: /^Model/ }).click()
  await page.getByRole('menuitemradio', { name: job.model, exact: true }).waitFor()
  await picture(page, 'dsh-models', { x: 400, y: 560, width: 760, height: 240 })
  await page.keyboard.press('Escape')
  await page.keyboard.press('Escape')
}

/** The plugin's page with its settings, as far as they go: what is below names where this bundle was installed from. */
async function settings(page) {
  await page.getByRole('button', { name: 'Plugins', exact: true }).click()
  // It is the only one that was installed; its name on the page is its title.
  const installed = page.getByRole('heading', { name: 'Installed plugins' })
  await installed.locator('xpath=following::button[starts-with(@aria-label, "View ")]').first().click()
  await page.getByRole('heading', { name: 'Components' }).waitFor()
  const save = page.getByRole('button', { name: 'Save', exact: true })
  if (!await save.isVisible()) throw new Error("the plugin's page has no settings card")
  await page.setViewportSize({ ...SIZE, height: 2000 })
  await save.waitFor()
  // The limits below are many numbers; docs/settings.md has them.
  const { y } = await page.getByRole('heading', { name: 'Limits' }).boundingBox()
  await picture(page, 'dsh-settings', { x: 0, y: 0, width: SIZE.width, height: Math.floor(y - 16) })
}

/** Nothing of what is pointed at or typed into is highlighted. */
async function picture(page, name, clip) {
  await page.mouse.move(SIZE.width / 2, 2)
  await page.evaluate(() => document.fonts.ready)
  await page.screenshot({ path: join(job.out, `${name}.png`), clip, animations: 'disabled', caret: 'hide' })
}
