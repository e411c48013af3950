// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_FRAME_SOURCE_H
#define SOFTROUTER_FRAME_SOURCE_H

#include "ns3/address.h"
#include "ns3/application.h"
#include "ns3/data-rate.h"
#include "ns3/event-id.h"
#include "ns3/net-device.h"
#include "ns3/packet.h"
#include "ns3/ptr.h"
#include "ns3/random-variable-stream.h"
#include "ns3/traced-callback.h"
#include "ns3/type-id.h"

#include <cstdint>
#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief Sends frames of many flows straight into a device: a traffic generator.
 *
 * Frames are IPv4 and UDP: flow f has addresses 198.18.(f >> 8).(f & 255) and
 * 198.19.(f >> 8).(f & 255) (RFC 2544's, for tests of devices), source port 1024 + f % 60000 and
 * destination port 9. A frame of S bytes (Ethernet header to FCS) is a packet of S - 18 bytes, as
 * EthernetLinkHelper's links expect.
 *
 * Rate is what the frames take on the wire, S + 20 bytes each. With Poisson arrivals the flow of
 * each frame is drawn at random, so that each flow is a Poisson process; at a constant rate flows
 * take turns, and a frame follows the one before after just its time on the wire. Sizes are
 * drawn by weight.
 *
 * Each flow and size has one packet, which is copied; nothing else is made per frame. All copies
 * have the same uid.
 */
class FrameSource : public Application
{
  public:
    static constexpr uint32_t MIN_SIZE = 64;     //!< bytes, the smallest Ethernet frame
    static constexpr uint32_t MAX_SIZE = 9216;   //!< bytes, a jumbo frame
    static constexpr uint32_t MAX_FLOWS = 65536; //!< flows that have addresses of their own

    /**
     * \brief Get the type ID.
     * \return the object TypeId
     */
    static TypeId GetTypeId();

    FrameSource();
    ~FrameSource() override;

    /**
     * \brief Sets the device that frames are sent into.
     * \param device of any node
     */
    void SetDevice(Ptr<NetDevice> device);

    /**
     * \brief Adds a frame size. Without any, frames have 64 bytes.
     * \param bytes from the Ethernet header to the FCS, 64 to 9216
     * \param weight how often this size is chosen, compared to the others; more than 0
     */
    void AddSize(uint32_t bytes, double weight);

    /**
     * \brief Sets the flows: first, first + step, ... of all flows of a test.
     * \param first the first flow's number
     * \param step to the next one's
     * \param count how many, at least 1; none may be 65536 or more
     */
    void SetFlows(uint32_t first, uint32_t step, uint32_t count);

    /**
     * \brief Gets how many frames were offered to the device.
     * \return frames
     */
    uint64_t GetOffered() const;

    /**
     * \brief Gets how many bytes of frames were offered to the device.
     * \return bytes, from the Ethernet header to the FCS
     */
    uint64_t GetOfferedBytes() const;

    /**
     * \brief Gets how many of them the device refused, its queue being full.
     * \return frames
     */
    uint64_t GetRefused() const;

    /**
     * \brief Sets the counters to 0, as after a warm-up.
     */
    void ResetCounters();

    /**
     * \brief Fixes the random numbers' stream.
     * \param stream its number
     * \return how many streams are used
     */
    int64_t AssignStreams(int64_t stream);

    /**
     * \brief Makes a packet as this source sends it.
     * \param flow the flow's number
     * \param size of the frame in bytes
     * \return the packet, IPv4 header first
     */
    static Ptr<Packet> MakePacket(uint32_t flow, uint32_t size);

  protected:
    void DoDispose() override;

  private:
    void StartApplication() override;
    void StopApplication() override;

    /**
     * \brief Sends a frame, and schedules the next.
     */
    void SendNext();

    /**
     * \brief Draws the size of a frame.
     * \return index into m_sizes
     */
    uint32_t DrawSize();

    /**
     * \brief Schedules the next frame.
     * \param steps after which it is sent, in the simulation's time steps, which need not be whole
     */
    void ScheduleAfter(double steps);

    /// A frame size.
    struct Size
    {
        uint32_t bytes;    //!< from the Ethernet header to the FCS
        double weight;     //!< as given
        double cumulative; //!< share of this size and of those before it
        double steps;      //!< time on the wire at this source's rate, in time steps
    };

    Ptr<NetDevice> m_device;                //!< frames go into this
    Address m_to;                           //!< link-layer destination
    DataRate m_rate;                        //!< on the wire
    bool m_poisson;                         //!< whether arrivals are random
    uint32_t m_first{0};                    //!< the first flow
    uint32_t m_step{1};                     //!< to the next one
    uint32_t m_count{1};                    //!< of flows
    std::vector<Size> m_sizes;              //!< of frames
    double m_meanSteps{0};                  //!< between frames, in time steps
    std::vector<Ptr<Packet>> m_templates;   //!< of each flow and size, made when first needed
    uint32_t m_turn{0};                     //!< the next flow, at a constant rate
    double m_carry{0};                      //!< what the last schedule was rounded down by
    EventId m_next;                         //!< the next frame
    Ptr<UniformRandomVariable> m_random;    //!< of times, flows and sizes
    uint64_t m_offered{0};                  //!< frames
    uint64_t m_offeredBytes{0};             //!< bytes of them
    uint64_t m_refused{0};                  //!< frames
    TracedCallback<Ptr<const Packet>> m_tx; //!< each frame, before it is offered
};

} // namespace ns3

#endif // SOFTROUTER_FRAME_SOURCE_H
